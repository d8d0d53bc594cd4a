"""Folders of branches: where a session works, and the effects that open a worktree and merge a branch.

A session works in the folder it was started in; a branch of it in a worktree that starts with the files of the snapshot
at its fork; a child session works where its parent works. The worktree is made by an effect of the branch before
anything else runs there, so a kill in between leaves an ordinary effect to recover. A snapshot is recorded in the line
of the transcript after which it was taken, so the state at any event knows its files.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.agent.files import worktree
from perdure.agent.files.merge import merge_into
from perdure.agent.files.snapshot import Snapshots
from perdure.config import default_store
from perdure.domain.session import SessionRecord
from perdure.errors import Conflict, IllegalMove, NotDone, NotFound
from perdure.ids import digest
from perdure.runtime.definitions.tool import Call, tool
from perdure.store.move import StoreTransaction
from perdure.store.moves import message
from perdure.store.moves import session as sessions

if TYPE_CHECKING:
    from perdure.runtime.runtime import Runtime


class SessionFolder(msgspec.Struct, frozen=True):
    """Where a session works: in a repository itself, or in the worktree of the branch with this uid."""

    repository: str
    branch: str | None = None


def session_folder(tx: StoreTransaction, session: SessionRecord) -> SessionFolder | None:
    """The folder of a session: a child's is its parent's, a branch has its own; None if there is none."""
    while session.forked_from is None and session.parent_uid is not None:
        session = sessions.get(tx, session.parent_uid)
    if session.repository is None:
        return None
    return SessionFolder(session.repository, None if session.forked_from is None else session.uid)


def storage_folder(runtime: Runtime) -> Path | None:
    """The folder of the store, or the folder that was named for its large values."""
    if runtime.store.folder is not None:
        return runtime.store.folder
    return None if runtime.values.directory is None else runtime.values.directory.folder


def snapshot_folder(repository: str, data: Path | None) -> Path | None:
    """Where the snapshots of a repository are stored: beside the store, unless that is inside the repository."""
    if data is None:
        return None
    root, home = Path(repository).resolve(), data.resolve()
    if home == root or root in home.parents:
        home = default_store().parent.resolve()
    if home == root or root in home.parents:
        return None
    return home / "snapshots" / digest(str(root))[:16]


def folder_path(folder: SessionFolder, home: Path | None) -> Path | None:
    """The folder on this disk; None for a branch that has none yet."""
    if folder.branch is None:
        return Path(folder.repository)
    return None if home is None else worktree.worktree_path(home, folder.branch)


async def record_in_log(runtime: Runtime, uid: str, body: dict[str, Any], *, key: str) -> None:
    """Add a line about the folder of a session to its log, once; `body[key]` identifies it.

    The log of a session that has ended, was moved away or came as the history of a copy is closed: it stays as it is.
    """
    try:
        await runtime.store.write(message.add_note(uid, runtime.by, body, key=key))
    except IllegalMove:
        if (await runtime.store.read(sessions.get, uid)).sealed_at is None:
            raise


@tool(replay="idempotent", inflight="1s", retry=5, name="open_worktree", reach="workspace")
def open_worktree(call: Call, repository: str, home: str, branch: str, commit: str | None, snapshot: str | None) -> str:
    """Give a branch a folder of its own; a second call completes what the first one started."""
    try:
        made = str(worktree.add(Path(repository), Path(home), branch, commit=commit, snapshot=snapshot))
    except (Conflict, NotFound) as error:
        raise NotDone(error.message) from error
    call.reference(made)
    return made


class MergeReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a merge: the paths that were written or removed, and those that a person has to decide on."""

    tree: str
    written: list[str] = []
    removed: list[str] = []
    conflicts: list[str] = []
    marked: bool = False  # the conflicts are in the files, between markers
    snapshot: str | None = None  # of the folder after the merge


@tool(replay="idempotent", inflight="1s", retry=5, name="merge_branch", targets=("folder:{folder}",), reach="workspace")
def merge_branch(
    call: Call, folder: str, home: str, base: str, ours: str, theirs: str, mark: bool = False
) -> MergeReport:
    """Merge the changes of a branch. Writing a file twice is harmless; a file that changed meanwhile is refused."""
    try:
        made = merge_into(
            Snapshots(Path(folder), Path(home)), base=base, ours=ours, theirs=theirs, write_conflicts=mark
        )
    except (Conflict, NotFound) as error:
        raise NotDone(error.message) from error
    call.reference(folder)
    return MergeReport(
        made.tree, list(made.written), list(made.removed), [f"{one.path} ({one.kind})" for one in made.conflicts],
        marked=mark and bool(made.conflicts), snapshot=None if made.after is None else made.after.commit,
    )  # fmt: skip


ORDERS: dict[str, Any] = {merge_branch.name: merge_branch}
