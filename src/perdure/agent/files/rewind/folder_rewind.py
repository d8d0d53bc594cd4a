"""Rewinds a folder in place: puts the files of a session's own folder back to a snapshot.

    plan       snapshot what the folder holds; compare it with the wanted snapshot; list what will change and what stays
    rewind     one effect, which names both snapshots and holds the lease of the folder: path by path, each only if it
               still holds what the first snapshot holds
    record     a line in the log of the session, with the snapshot after it, unless its log is closed

The effect belongs to a session of its own, with the program `rewind_folder`: it needs no model, and the rewound session
may have ended. A kill leaves an effect that is run again: paths that are done are found as done. What was replaced or
removed is in the first snapshot, so the same rewind to that snapshot takes it back.

Left as they are, and listed: ignored files, by the rules of now and of the wanted snapshot; files that the wanted
snapshot could not hold; repositories inside the folder; Perdure's own files.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from perdure.agent.call_report import bounded
from perdure.agent.files.branch import (
    folder_path,
    record_in_log,
    session_folder,
    snapshot_folder,
    storage_folder,
)
from perdure.agent.files.checkout import NESTED, Change, changes_between, ignored_by_snapshot
from perdure.agent.files.object_store import LockedStore
from perdure.agent.files.rewind.path_replacement import PathReplacer
from perdure.agent.files.snapshot import Snapshots
from perdure.agent.tools.result import short
from perdure.errors import Conflict, NotDone, NotFound, PerdureError
from perdure.ids import digest, host, storable
from perdure.runtime.definitions.program import program
from perdure.runtime.definitions.tool import Call, tool
from perdure.runtime.session import Session
from perdure.store.moves import session as sessions

if TYPE_CHECKING:
    from perdure.runtime.runtime import Runtime

SHOWN = 4000  # characters of the list of changed files for the model
KEPT_NESTED = "it is a repository of its own"
KEPT_IGNORED = "the rules of that snapshot ignore it"
KEPT_OWN = "it belongs to Perdure"
KEPT_HIDDEN = "it is ignored, or in no snapshot"
KEPT_LEFT_OUT = "that snapshot could not hold it"


class KeptPath(msgspec.Struct, frozen=True):
    """A path that a rewind leaves as it is, and why."""

    path: str
    why: str


class FolderRewind(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a rewind in place."""

    written: list[str] = []
    removed: list[str] = []
    kept: list[KeptPath] = []  # left as they are, by the rules of the plan
    refused: list[KeptPath] = []  # not changed: they changed meanwhile, or could not be written
    snapshot: str | None = None  # of the folder afterwards


def folder_changes(
    store: LockedStore, snapshots: Snapshots, before: str, target: str, left_out: Iterable[str], own: Iterable[str]
) -> tuple[list[Change], list[KeptPath]]:
    """The changes that lead from one snapshot to another, and the paths that stay as they are.

    `left_out` are the paths that the wanted snapshot does not hold, each with the reason; `own` are Perdure's own.
    """
    old, new = store.tree(before), store.tree(target)
    changes = changes_between(store, old, new)
    ignored = ignored_by_snapshot(store, snapshots.view, new, changes)
    own, left_out = tuple(own), tuple(left_out)
    wanted, kept = [], []
    for one in changes:
        if NESTED in (one.mode, one.old_mode):
            kept.append(KeptPath(one.path, KEPT_NESTED))
        elif any(one.path == path or one.path.startswith(f"{path}/") for path in own):
            kept.append(KeptPath(one.path, KEPT_OWN))
        elif one.is_removed and one.path in ignored:
            kept.append(KeptPath(one.path, KEPT_IGNORED))
        elif one.is_removed and any(text.startswith(f"{short(one.path)} (") for text in left_out):
            kept.append(KeptPath(one.path, KEPT_LEFT_OUT))
        else:
            wanted.append(one)
    return wanted, kept


def folder_lease(folder: str) -> str:
    """The name of the lease of a folder on this machine."""
    return digest(f"{host()}\0{folder}")[:32]


@tool(replay="idempotent", inflight="1s", retry=5, name="rewind_files", targets=("folder:{folder}",),
      leases=("folder:{lease}",), reach="workspace")  # fmt: skip
def rewind_files(
    call: Call, folder: str, home: str, lease: str, before: str, target: str, left_out: list[str], own: list[str]
) -> FolderRewind:
    """Put the files of a folder back to a snapshot; a path that has changed since `before` is refused."""
    if lease != folder_lease(folder):
        raise NotDone(f"{short(folder)} is a folder of another machine.")
    try:
        snapshots = Snapshots(Path(folder), Path(home))
        with snapshots.lock() as store:
            changes, kept = folder_changes(store, snapshots, before, target, left_out, own)
            replacer = PathReplacer(store, snapshots.folder)
            replacer.replace(changes)
    except (Conflict, NotFound) as error:
        raise NotDone(error.message) from error
    call.reference(folder)
    done, is_written = set(replacer.done), {one.path: one.is_written for one in changes}
    refused = [KeptPath(storable(path), why) for path, why in sorted(replacer.refused.items())]
    return FolderRewind(
        [storable(path) for path, written in is_written.items() if path in done and written],
        [storable(path) for path, written in is_written.items() if path in done and not written],
        [KeptPath(storable(one.path), one.why) for one in kept],
        refused,
        _snapshot_after(snapshots, target),
    )


def _snapshot_after(snapshots: Snapshots, target: str) -> str | None:
    """A snapshot of the folder after the rewind; None if none can be taken, for example because the disk is full."""
    try:
        return snapshots.take(f"after the rewind to {target[:12]}").commit
    except PerdureError:
        return None


@program
async def rewind_folder(
    s: Session, session: str, event: int | None, before: str, target: str, left_out: list[str], own: list[str]
) -> FolderRewind:
    """Rewind the folder of another session, and record it there."""
    runtime = s._run.runtime
    folder, home = await folder_of(runtime, session)

    async def record() -> None:
        await record_rewind(runtime, session, event, before, made, s.uid)

    made = await s.do(
        rewind_files, folder=str(folder), home=str(home), lease=folder_lease(str(folder)), before=before, target=target,
        left_out=left_out, own=own,
    )  # fmt: skip
    await s.step("record", record)
    return made


async def folder_of(runtime: Runtime, uid: str) -> tuple[Path, Path]:
    """The folder that a session works in, and the folder of its snapshots."""
    session = await runtime.store.read(sessions.get, uid)
    there = await runtime.store.read(session_folder, session)
    home = None if there is None else snapshot_folder(there.repository, storage_folder(runtime))
    path = None if there is None else folder_path(there, home)
    if home is None or path is None or not path.is_dir():
        raise NotFound(
            f"The folder of session {session.id} is not here, so its files cannot be put back.",
            hint=f"`perdure rewind {session.id} --to N` makes a branch with the files as they were.",
        )
    return path.resolve(), home


async def record_rewind(
    runtime: Runtime, uid: str, event: int | None, before: str, made: FolderRewind, key: str
) -> None:
    """Record the rewind in the log of the session whose folder it is, once; `key` identifies the rewind."""
    if not (made.written or made.removed):
        return
    paths = [f"written {one}" for one in made.written] + [f"removed {one}" for one in made.removed]
    target = "an earlier snapshot" if event is None else f"event {event}"
    text = f"The user put the files of this folder back to {target}: {', '.join(paths)}"
    about = {
        "role": "note",
        "about": "performed",
        "content": f"{bounded(text, SHOWN)}.",
        "rewind": key,
        "before": before,
    }
    body = about if made.snapshot is None else about | {"snapshot": made.snapshot}
    await record_in_log(runtime, uid, body, key="rewind")
