"""The hook through which the runtime reports what it does. It does nothing unless a recorder is installed.

    run        one run of a session in this process
    chat       one request to a model
    tool       one tool call: an effect from its intent to its end
    attempt    one dispatch of an effect
    recovery   an effect that an earlier run left under way
    request    a request to the service that changed a session

Reports never have arguments or results. `trace_ids` says how a trace outlives the processes of its session.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from enum import StrEnum
from types import TracebackType
from typing import Any, Protocol


class Kind(StrEnum):
    """What is reported."""

    RUN = "run"
    CHAT = "chat"
    TOOL = "tool"
    ATTEMPT = "attempt"
    RECOVERY = "recovery"
    REQUEST = "request"


class Span(Protocol):
    """One report while it is under way."""

    def note(self, **facts: Any) -> None:
        """Add what is known by now."""
        ...


class Recorder(Protocol):
    """What gets the reports."""

    def span(self, kind: Kind, uid: str, name: str, facts: dict[str, Any]) -> AbstractContextManager[Span]: ...

    def ids(self) -> tuple[str, str] | None:
        """The ids of the trace and of the span that are current, for log messages."""
        ...


class _Nothing:
    """The span while nothing is installed."""

    __slots__ = ()

    def note(self, **facts: Any) -> None:
        pass

    def __enter__(self) -> Span:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


_NOTHING = _Nothing()
_recorder: Recorder | None = None


def span(kind: Kind, uid: str, name: str, **facts: Any) -> AbstractContextManager[Span]:
    """Report something that the session `uid` does, from here to the end of the block."""
    if _recorder is None:
        return _NOTHING
    return _recorder.span(kind, uid, name, facts)


def current_ids() -> tuple[str, str] | None:
    return None if _recorder is None else _recorder.ids()


def install(recorder: Recorder | None) -> None:
    """Report to a recorder from now on; to none with None."""
    global _recorder
    _recorder = recorder
