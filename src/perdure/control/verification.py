"""Verification: read the log and every row of one session or of all, and report what is damaged."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from perdure.store.inspection import damage
from perdure.store.move import StoreTransaction
from perdure.store.moves import session
from perdure.store.row_check import DamagedRow


class Verification(msgspec.Struct):
    """What was read, and what is damaged."""

    sessions: int = 0
    events: int = 0
    damaged: list[str] = msgspec.field(default_factory=list)
    damaged_sessions: int = 0
    rows: list[DamagedRow] = msgspec.field(default_factory=list)


def verify_sessions(tx: StoreTransaction, name: str | None, progress: Callable[[int], None]) -> Verification:
    """Read every session, or one. `progress` is given the number of sessions read so far."""
    done = Verification()
    uids = damage.session_uids(tx) if name is None else iter([damage.find(tx, name) or session.find(tx, name).uid])
    for uid in uids:
        found = [uid] if isinstance(uid, DamagedRow) else damage.of_session(tx, uid)
        done.sessions, done.damaged_sessions = done.sessions + 1, done.damaged_sessions + bool(found)
        done.damaged += [str(one) for one in found]
        done.rows += found
        if not found and isinstance(uid, str):
            done.events += session.get(tx, uid).cursor
        progress(done.sessions)
    return done
