"""A session and its descendants, for a worker that runs only these."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from perdure.domain.session import Status
from perdure.domain.wait import WaitKind
from perdure.runtime.definitions.program import PROGRAMS
from perdure.runtime.deploy.code_version import meets
from perdure.runtime.policy.active_policy import STORE, state_in
from perdure.store.move import StoreTransaction
from perdure.store.moves import session, wait


class Entry(msgspec.Struct, frozen=True):
    """A session as a worker sees it: only columns that can be read even if a stored value is damaged."""

    uid: str
    id: str
    program: str
    status: str
    priority: int
    updated_at: int
    cursor: int
    lease_holder: str | None
    lease_until: int | None


def entry(tx: StoreTransaction, uid: str) -> Entry | None:
    """One session, unless it has ended or is sealed."""
    row = tx.one("session.entry", uid=uid)
    return None if row is None else Entry(*row)


def runnable_family(
    tx: StoreTransaction, uid: str, dead: Collection[str], has_policy: bool, version: str
) -> list[Entry]:
    """The session and its descendants that may be run here, in order; `dead` are workers by id.

    The session itself is run even if its code is not loaded: then it waits for its code, which a user can see.
    """
    found = [one for one in _family(tx, uid) if one.program in PROGRAMS or one.uid == uid]
    able = [one for one in found if _may_run(tx, one, dead, has_policy, version)]
    return sorted(able, key=lambda one: (-one.priority, one.updated_at, one.uid))


def _family(tx: StoreTransaction, uid: str) -> list[Entry]:
    found = [one for one in [entry(tx, uid)] if one is not None]
    return found + [one for child in session.children(tx, uid) for one in _family(tx, child)]


def _may_run(tx: StoreTransaction, one: Entry, dead: Collection[str], has_policy: bool, version: str) -> bool:
    """Whether a session is ready, was left by its worker, or waits for what this process has."""
    if one.status == Status.READY:
        return True
    if one.status == Status.RUNNING:
        return (one.lease_until or 0) < tx.now or (one.lease_holder or "").split("@")[0] in dead
    for asked in wait.open_of_kind(tx, one.uid, WaitKind.POLICY):
        if state_in(tx).is_usable if asked.ref == STORE else has_policy:
            return True
    if wait.open_of_kind(tx, one.uid, WaitKind.SLOT):  # a run that was asked for needs no slot
        return True
    missing = wait.open_of_kind(tx, one.uid, WaitKind.PROGRAM)
    return bool(missing) and all(meets(asked, version) for asked in missing)
