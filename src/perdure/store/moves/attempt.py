"""Reads of attempts, with the time when each ended measured by the boot clock, and the report of a running tool.

The store's time may be a wall clock, and a step forward would make an end look older than it is: an absence would count
before `inflight` is over. So the end is also recorded on the boot clock; where the same boot clock can be read again,
it gives the time since the act ended.
"""

from __future__ import annotations

import msgspec

from perdure.clock import SECOND
from perdure.domain.effect import Attempt
from perdure.ids import boot_clock
from perdure.store.move import StoreTransaction, plain_move

MANY = 1_000_000


def attempts_of(tx: StoreTransaction, uid: str, id: str) -> list[Attempt]:
    """Every attempt of an effect, in order."""
    rows = tx.all("attempt.of_effect", uid=uid, effect_id=id, limit=MANY)
    return [with_current_end(tx, Attempt.from_row(row)) for row in rows]


@plain_move
def report(tx: StoreTransaction, uid: str, effect_id: str, number: int, progress: str | None) -> None:
    """Record that the tool of an attempt is still running. An attempt with an outcome is left as it is."""
    tx.run("attempt.report", uid=uid, effect_id=effect_id, number=number, progress=progress, now=tx.now)


def boot_mark(tx: StoreTransaction) -> str | None:
    """The current time of the boot clock, with the name of that clock; None where it has no name."""
    return f"{boot_clock()} {tx.boot}" if tx.boot and boot_clock() else None


def with_current_end(tx: StoreTransaction, attempt: Attempt) -> Attempt:
    """The attempt, with its end in the store's present time, if the clock was set since."""
    if attempt.ended_at is None or attempt.ended_boot is None or not tx.boot:
        return attempt
    clock, _, then = attempt.ended_boot.rpartition(" ")
    ended_at = tx.now - (tx.boot - int(then))
    if clock != boot_clock() or ended_at > tx.now or abs(ended_at - attempt.ended_at) <= SECOND:
        return attempt
    return msgspec.structs.replace(attempt, ended_at=ended_at)
