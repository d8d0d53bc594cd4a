"""What only this process knows of the attempts that it made, by (session, effect, attempt).

It outlives a runtime that is closed and opened again in the same process. A forked child starts without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol
from weakref import WeakSet

from perdure.domain.effect import Attempt
from perdure.domain.worker import Liveness
from perdure.errors import NotFound, StoreError
from perdure.process import forget_in_child
from perdure.store.moves import session
from perdure.store.moves.effect_input import AttemptResult
from perdure.store.store import Store


class Wakeable(Protocol):
    """A writer of late outcomes (`late_outcomes`)."""

    def wake(self) -> None: ...


AttemptKey = tuple[str, str, int]
ACTING: set[AttemptKey] = set()  # acts under way in this process
IN_THREADS: dict[AttemptKey, Callable[[], None]] = {}  # of these, those in threads, and how to stop waiting for each
BROKEN_OFF: set[AttemptKey] = set()  # coroutines that were cancelled; work that they started may still be running
LATE: dict[
    AttemptKey, tuple[AttemptResult, int]
] = {}  # outcomes that the store could not take yet, with the tool's `retry`
REFUSED: set[AttemptKey] = set()  # of the late outcomes, those that the store refused; the reason is in the log
WRITERS: WeakSet[Wakeable] = WeakSet()  # the writers of late outcomes, one for each runtime of this process
forget_in_child(ACTING.clear)
forget_in_child(IN_THREADS.clear)
forget_in_child(BROKEN_OFF.clear)
forget_in_child(LATE.clear)


def keep_late_outcome(attempt: AttemptKey, known: AttemptResult, retry: int) -> None:
    """Keep an outcome that the store could not take, and wake the writers, which try again until it can."""
    LATE[attempt] = (known, retry)
    for writer in list(WRITERS):
        writer.wake()


def has_late_outcome(uid: str) -> bool:
    """Whether an outcome of a session is known in this process only."""
    return any(attempt[0] == uid and attempt not in REFUSED for attempt in list(LATE))


def is_acting(uid: str) -> bool:
    """Whether an act of a session is under way in this process."""
    return any(attempt[0] == uid for attempt in list(ACTING))


def is_acting_for(store: Store) -> bool:
    """Whether an act for this store may be under way here, or an outcome of it is not written yet."""
    for uid in {attempt[0] for registry in (ACTING, BROKEN_OFF, LATE) for attempt in list(registry)}:
        try:
            store.read_now(session.get, uid)
        except NotFound:  # of another store
            continue
        except StoreError:
            return True
        return True
    return False


def leave_threads() -> bool:
    """Let every act in a thread write its outcome without the task that waits for it; returns whether one is under way.

    For a process whose event loop does not turn: an outcome that is known there would otherwise be lost with it.
    """
    for leave in list(IN_THREADS.values()):
        leave()
    return any(attempt in ACTING for attempt in list(IN_THREADS))


def liveness_here(attempt: Attempt) -> Liveness:
    """Whether an attempt of this process may still be under way."""
    key = (attempt.session_uid, attempt.effect_id, attempt.number)
    if key in ACTING:
        return Liveness.ALIVE
    return Liveness.CANNOT_TELL if key in BROKEN_OFF else Liveness.DEAD
