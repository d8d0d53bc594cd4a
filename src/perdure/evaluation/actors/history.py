"""What an actor records about its own calls: when it called, when it got its answer, and what the answer was.

One file for each actor. Times are of the boot clock, which all processes of a machine share.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from perdure.clock import boot_time
from perdure.errors import PerdureError, StoreUnavailable

T = TypeVar("T")
REFUSED = (PerdureError, PermissionError)


class ActorHistory:
    """The history of one actor; synced when it is closed."""

    def __init__(self, folder: Path, actor: str) -> None:
        self.actor = actor
        self._file = (folder / f"history-{actor}.jsonl").open("wb")
        self._next = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def value(self) -> str:
        """A value that occurs once in a trial."""
        self._next += 1
        return f"{self.actor}/{self._next}"

    async def append(
        self, session: str, value: str, act: Callable[[], Awaitable[T]], *, message: bool = False
    ) -> T | None:
        """Do an append and record it; None if it was refused."""
        called = boot_time()
        try:
            result = await act()
        except REFUSED as error:
            outcome = "unknown" if isinstance(error, StoreUnavailable) else "refused"
            self._write(
                session, called, op="append", value=value, outcome=outcome, code=str(error)[:100], message=message
            )
            return None
        self._write(session, called, op="append", value=value, outcome="ok", message=message)
        return result

    def read(self, session: str, called: int, number: int, digest: str) -> None:
        """Record a read of the first `number` entries."""
        self._write(session, called, op="read", number=number, digest=digest)

    def done(self, session: str, called: int, value: str) -> None:
        """Record an append that ended now."""
        self._append(session, called, value, "ok", message=False)

    def _append(self, session: str, called: int, value: str, outcome: str, **more: Any) -> None:
        self._write(session, called, op="append", value=value, outcome=outcome, **more)

    def _write(self, session: str, called: int, **what: Any) -> None:
        line = {"actor": self.actor, "session": session, "called": called, "returned": boot_time()} | what
        self._file.write(msgspec.json.encode(line) + b"\n")
