"""The queue: which sessions a worker may run, and in which order.

Higher priority first, and within a priority the one that was changed least recently. Only columns that every worker
needs are read, so that a session whose stored values cannot be read does not keep the others from running.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from perdure.domain.session import Status
from perdure.domain.wait import WaitKind
from perdure.runtime.definitions.program import PROGRAMS
from perdure.runtime.definitions.tool import TOOLS
from perdure.store.move import StoreTransaction
from perdure.store.moves import session, wait
from perdure.store.moves.session import FOREVER

MANY = 100_000


class Entry(msgspec.Struct, frozen=True):
    """A session as a worker sees it."""

    uid: str
    id: str
    program: str
    status: str
    priority: int
    updated_at: int
    cursor: int
    crash_count: int
    lease_holder: str | None
    lease_until: int | None

    @property
    def has_crashed(self) -> bool:
        """Whether its last worker was lost while it ran the session."""
        return self.crash_count > 0 or self.status == Status.RUNNING


def next_in_line(
    tx: StoreTransaction, dead: Collection[str], *, limit: int, has_policy: bool = False, only: str | None = None
) -> list[Entry]:
    """At least `limit` sessions that may be run here, if there are so many, in order; `dead` are workers by id.

    With `only`, that session and its descendants, even if the code of the session is not loaded: then it waits for its
    code, which a user can see.
    """
    if only is not None:
        found = _family(tx, only)
    else:
        found = [one for program in sorted(PROGRAMS) for one in _ready(tx, program, limit)]
        before = FOREVER if dead else tx.now  # what a dead worker left needs no patience
        found += [Entry(*row) for row in tx.all("session.running", before=before, limit=MANY)]
        for kind in (WaitKind.PROGRAM, *((WaitKind.POLICY,) if has_policy else ())):
            found += [Entry(*row) for row in tx.all("session.waiting_for", kind=kind, limit=MANY)]
    known = [one for one in found if one.program in PROGRAMS or one.uid == only]
    able = {one.uid: one for one in known if _may_run(tx, one, dead, has_policy)}
    return sorted(able.values(), key=lambda one: (-one.priority, one.updated_at, one.uid))


def entry(tx: StoreTransaction, uid: str) -> Entry | None:
    """One session, unless it has ended or is sealed."""
    row = tx.one("session.entry", uid=uid)
    return None if row is None else Entry(*row)


def _ready(tx: StoreTransaction, program: str, limit: int) -> list[Entry]:
    queues = [row[0] for row in tx.all("session.queues", limit=MANY)]
    rows = [tx.all("session.ready", queue=queue, program=program, limit=limit) for queue in queues]
    return [Entry(*row) for some in rows for row in some]


def _family(tx: StoreTransaction, uid: str) -> list[Entry]:
    """A session and its descendants."""
    found = [one for one in [entry(tx, uid)] if one is not None]
    return found + [one for child in session.children(tx, uid) for one in _family(tx, child)]


def _may_run(tx: StoreTransaction, one: Entry, dead: Collection[str], has_policy: bool) -> bool:
    """Whether a session is ready, was left by its worker, or waits for what this process has."""
    if one.status == Status.READY:
        return True
    if one.status == Status.RUNNING:
        return (one.lease_until or 0) < tx.now or (one.lease_holder or "").split("@")[0] in dead
    if has_policy and wait.open_of_kind(tx, one.uid, WaitKind.POLICY):
        return True
    missing = [asked.ref for asked in wait.open_of_kind(tx, one.uid, WaitKind.PROGRAM)]
    return bool(missing) and all(name in PROGRAMS or name in TOOLS for name in missing)
