"""The code that a session runs under: it is handed back if its records do not fit, and may be pinned to its version.

A session that is handed back waits for `program`. The wait names the versions of the code that were tried, so that each
is tried once, until the program restarts.
"""

from __future__ import annotations

from perdure.domain.session import Status
from perdure.domain.wait import WaitKind
from perdure.store.move import Log, holder_move, outsider_move
from perdure.store.moves import session, session_end, wait


@holder_move
def hand_back(log: Log, program: str, version: str, *, because: str, pinned: str | None = None) -> bool:
    """Release the lease and wait for other code of the program; False if the session was cancelled or must continue."""
    if log.head.cancel_requested_at is not None and pinned is None:
        return False
    restart = log.head.restart_number
    asked = wait.of_kind(log.tx, log.uid, WaitKind.PROGRAM)
    tried = {name for one in asked if one.restart_tried == restart for name in one.versions_tried}
    for one in asked:
        if one.resolved_at is None:
            wait.settle(log, one, None)
    detail = {"versions": sorted({*tried, version}), "restart": restart, "why": because}
    if pinned is not None:  # the version was not tried
        detail = {"versions": [version], "pinned": pinned, "why": because}
    return session_end.park_for.on(log, WaitKind.PROGRAM, ref=program, detail=detail)


@outsider_move
def unpin(log: Log) -> None:
    """Let workers of any version run a session; one that waits for its version is ready."""
    session.refuse_finished(log)
    if log.tx.run("session.unpin", uid=log.uid) == 0:
        return
    for one in wait.open_of_kind(log.tx, log.uid, WaitKind.PROGRAM):
        if isinstance(one.detail, dict) and "pinned" in one.detail:
            wait.settle(log, one, None)
    log.append("session.described", rows={"session": {"pinned_at": None}})
    if log.head.status == Status.READY:
        log.tx.wake(log.head.queue)
