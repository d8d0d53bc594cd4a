"""Workspace affinity: a session whose files are in a folder of one machine runs where they are.

The files of an agent are unpublished from its first call of a tool that may change something, which is any tool that is
not `pure`. From then on the session belongs to the workspace of that machine: `session.workspace` is written before the
tool is dispatched, so a crash in between leaves it too strict and never too loose. It stays until the session is moved
to another store with export and import. A program's own tools may use any folder, and Perdure does not know which, so
the sessions of programs belong to no workspace.

A worker of another workspace that gets such a session parks it: it waits for `workspace`, and workers of that workspace
wake it. A session without a workspace whose folder is not on this machine waits in the same way, on a store that
several machines use: a worker that has the folder wakes it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.domain.session import SessionRecord
from perdure.domain.wait import Wait
from perdure.ids import host
from perdure.store.move import StoreTransaction
from perdure.store.moves import workspace

if TYPE_CHECKING:
    from perdure.runtime.run.run import Run
    from perdure.runtime.runtime import Runtime


async def bind_workspace(run: Run, folder: Path) -> None:
    """Record that the session has files in a folder of this machine, before a tool may change them."""
    if run.session.workspace is None and run.session.repository is not None:
        name = run.runtime.worker.workspace
        await run.write(workspace.bind(run.holder, name, folder=str(folder), host=host()))
        run.session = msgspec.structs.replace(run.session, workspace=name)


def is_elsewhere(runtime: Runtime, session: SessionRecord, *, is_agent: bool) -> bool:
    """Whether the files of a session are not in the workspace of this process."""
    if not is_agent or session.repository is None:
        return False
    if session.workspace is not None:
        return session.workspace != runtime.worker.workspace
    return runtime.store.database.dialect != "sqlite" and not _exists(session.repository)


def _exists(folder: str) -> bool:
    try:
        return Path(folder).exists()
    except (OSError, ValueError):
        return False


def describe_place(tx: StoreTransaction, session: SessionRecord) -> dict[str, Any]:
    """Where the files of a session are, for a person."""
    known = workspace.host_of(tx, session.uid, session.workspace)
    return {"folder": session.repository} | ({"host": known} if known else {})


def waits_met_here(tx: StoreTransaction, name: str) -> list[Wait]:
    """Open waits for `workspace` that this one meets."""
    return [
        asked
        for asked, bound, folder in workspace.open_waits(tx, name)
        if bound is not None or (folder is not None and _exists(folder))
    ]
