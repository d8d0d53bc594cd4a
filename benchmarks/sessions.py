"""Sessions for the benchmarks: their holders, and what is written into them."""

from __future__ import annotations

from perdure.domain.lease import Holder
from perdure.evaluation.payload import text
from perdure.ids import digest, encode, new_uid
from perdure.store.move import Move
from perdure.store.moves import event, lease, session, step
from perdure.store.moves.session import NewSession
from perdure.store.moves.step import NewStep
from perdure.store.store import Store

HOUR = 3_600_000_000
SHORT = 200
MESSAGE = 1024


def hold_one(store: Store) -> Holder:
    """Create a session and take its lease."""
    begun = store.write_now(session.create(NewSession(id=f"s-{new_uid()}", program="bench", arguments={}), by="bench"))
    return store.write_now(lease.acquire(begun.uid, "bench", nonce=new_uid(), ttl=HOUR))


def hold(store: Store, count: int) -> list[Holder]:
    return [hold_one(store) for _ in range(count)]


def append(holder: Holder, number: int, size: int = SHORT) -> Move[int]:
    """One line of the log."""
    return event.append(holder, "note", {"text": text(size, number)})


class Steps:
    """Steps of one session, each with its own number."""

    def __init__(self, store: Store) -> None:
        self.holder = hold_one(store)
        self._next = 0

    def record(self) -> Move[int]:
        self._next += 1
        recorded = NewStep(
            restart_number=0,
            scope="",
            name="read",
            argument_digest=digest(str(self._next)),
            occurrence=0,
            result=encode(text(SHORT, self._next)),
        )
        return step.record(self.holder, recorded)
