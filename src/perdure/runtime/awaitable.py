"""A call of `s.*`, which is done when it is awaited. A call that is never awaited is reported as an error.

`await s.do(...)` takes its position when it is called and acts when it is awaited. Without the `await` nothing would be
done, and the program would end as if it had been. So a run remembers the calls that were made and not started.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Generator
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any, TypeVar

from perdure.errors import ProgramError
from perdure.runtime.run.position import CallPosition

T = TypeVar("T", covariant=True)  # noqa: PLC0105 - a short name, as in the contract

_PACKAGE = str(Path(__file__).parent)


class SessionCall(Coroutine[Any, Any, T]):
    """A coroutine that knows where it was created, and whether it was started."""

    __slots__ = ("__weakref__", "_code", "_instruction", "_position_of", "_unstarted", "_work")

    def __init__(self, position: CallPosition, work: Coroutine[Any, Any, T], unstarted: set[SessionCall[Any]]) -> None:
        frame = sys._getframe(1)
        while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
            frame = frame.f_back
        self._position_of = position
        self._code: CodeType = frame.f_code
        self._instruction = frame.f_lasti
        self._work = work
        self._unstarted = unstarted
        unstarted.add(self)

    def __await__(self) -> Generator[Any, Any, T]:
        self._unstarted.discard(self)
        return self._work.__await__()

    def send(self, value: Any, /) -> Any:
        self._unstarted.discard(self)
        return self._work.send(value)

    def throw(self, kind: Any, value: BaseException | object = None, trace: TracebackType | None = None, /) -> Any:
        """Cancels a task that has not begun. It counts as started: the program handled it."""
        self._unstarted.discard(self)
        return self._work.throw(kind) if value is None else self._work.throw(kind, value, trace)

    def close(self) -> None:
        self._unstarted.discard(self)
        self._work.close()

    @property
    def what(self) -> str:
        """The call as it is written in the program: `s.do('post_comment')`."""
        kind, name = self._position_of.kind, self._position_of.name
        if name.startswith(":"):
            return {":settle": "settle()", ":task-change": "become()"}.get(name, f"s.{name[1:]}()")
        return f"s.{kind}({'' if kind == name else repr(name)})"

    @property
    def where(self) -> str:
        """The line that made it: `/path/app.py:12 in review`."""
        line = self._code.co_firstlineno
        for start, end, number in self._code.co_lines():
            if start <= self._instruction < end and number is not None:
                line = number
        return f"{self._code.co_filename}:{line} in {self._code.co_name}"

    def __repr__(self) -> str:
        return f"<{self.what} of {self.where}>"


class UnawaitedCalls:
    """The calls that a program has made and not awaited yet. Leaving it as a context closes them."""

    def __init__(self) -> None:
        self._unstarted: set[SessionCall[Any]] = set()

    def later(self, position: CallPosition, work: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """A call that is done when it is awaited."""
        return SessionCall(position, work, self._unstarted)

    def forgotten(self) -> ProgramError | None:
        """The error of a program that returned without awaiting a call; what was cancelled does not count."""
        tasks = self._tasks()
        left = [one for one in self._unstarted if one not in tasks or not tasks[one].cancelling()]
        if not left:
            return None
        named = sorted(f"{one.what} at {one.where}" for one in left)
        more = f", and {len(named) - 3} more" if len(named) > 3 else ""
        return ProgramError(
            f"The program returned without awaiting {', '.join(named[:3])}{more}: nothing was done there.",
            hint="Write `await` before the call, or close it.",
        )

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        for one in self._unstarted - self._tasks().keys():
            one.close()

    def _tasks(self) -> dict[Any, asyncio.Task[Any]]:
        """The tasks that will start a call, if there is one to be started."""
        return {task.get_coro(): task for task in asyncio.all_tasks()} if self._unstarted else {}
