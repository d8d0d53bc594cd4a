"""Moves and reads of workspaces: which machine has the unpublished files of a session."""

from __future__ import annotations

from perdure.domain.wait import Wait
from perdure.domain.worker import WorkerRecord
from perdure.ids import check_text, decode
from perdure.store.move import Log, StoreTransaction, holder_move
from perdure.store.moves import wait
from perdure.store.row_check import records

MANY = 1000


@holder_move
def bind(log: Log, name: str, *, folder: str, host: str) -> None:
    """Record that a session has files in a workspace. The first one counts."""
    check_text("The workspace", name)
    if log.tx.run("workspace.bind", uid=log.uid, workspace=name):
        log.append("note", {"workspace": name, "folder": folder, "host": host})


def open_waits(tx: StoreTransaction, name: str) -> list[tuple[Wait, str | None, str | None]]:
    """Open waits for this workspace or for any, with the workspace and the folder of the session."""
    rows = tx.all("workspace.waits", workspace=name, limit=MANY)
    return [(wait.get(tx, uid, id), bound, folder) for uid, id, bound, folder in rows]


def host_of(tx: StoreTransaction, uid: str, name: str | None) -> str | None:
    """The name of a host of a workspace: of a worker there, or of the last attempt of the session."""
    if name is None:
        return None
    for one in records(tx, "worker", [], "worker.list", limit=MANY):
        if isinstance(one, WorkerRecord) and name in (one.workspaces or ()):
            return one.host
    row = tx.one("workspace.last_process", uid=uid)
    process = decode(row[0]) if row and row[0] else None
    return process.get("host") if isinstance(process, dict) else None
