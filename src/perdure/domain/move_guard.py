"""A guard of moves: what a caller adds to the transaction of each move that it makes.

The service guards the moves of a request: its idempotency key is committed with what it did, and what it changes must
be as the client has read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol


class MoveGuard(Protocol):
    """What is done around the body of a move, in its transaction. It may run more than once for one move."""

    def around(self, move: Any, run: Callable[[Any], Any]) -> Callable[[Any], Any]: ...


_guard: ContextVar[MoveGuard | None] = ContextVar("perdure_move_guard", default=None)


def current_guard() -> MoveGuard | None:
    """The guard of this task; None: moves are made as they are."""
    return _guard.get()


@contextmanager
def guarding(guard: MoveGuard) -> Iterator[None]:
    """Guard each move that is submitted in this task and in those that it starts."""
    before = _guard.set(guard)
    try:
        yield
    finally:
        _guard.reset(before)
