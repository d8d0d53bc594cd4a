"""A writer: a process that commits to a PostgreSQL store, and what it can say after another server took over."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure.domain.record import Record


class Writer(Record, frozen=True):
    """A row of `writer`.

    Everything that the process had acknowledged is there up to `timeline`. `finding` says why it cannot vouch for a
    later one.
    """

    id: str
    host: str
    timeline: str
    finding: str | None
    seen_at: int


class Acknowledgment(msgspec.Struct, frozen=True):
    """A commit that the server acknowledged: the event that it left, and whether it waited for a standby.

    `session_uid` is empty for the commit that registered the writer, which left no event. `sent_at` and `acked_at` are
    times of the boot clock.
    """

    store_id: str
    timeline: str
    synchronous: bool
    sent_at: int
    acked_at: int
    session_uid: str = ""
    number: int = 0
    move_id: str = ""


def all_synchronous(acknowledged: Sequence[Acknowledgment]) -> bool:
    """Whether a standby has everything that was acknowledged.

    A commit that did not wait is covered by one that was sent after its answer and did: a standby has everything that
    comes before what it has.
    """
    covered = max((one.sent_at for one in acknowledged if one.synchronous), default=0)
    return all(one.synchronous or one.acked_at <= covered for one in acknowledged) and bool(acknowledged)
