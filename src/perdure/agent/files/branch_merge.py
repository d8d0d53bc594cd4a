"""Merges a branch into the folder of the session that it was forked from, and records the merge there.

A live branch performs its merge itself, ordered by a person. For a branch that has ended, a session of its own does it,
with the program `bring_home`. Both prepare the merge in the same way before the effect is planned: only a person
decides whether conflicts are marked in the files, and everything else is recorded. What was written becomes a line of
the parent session, with the snapshot after it, unless its log is closed.

    look       a snapshot of both folders, and the snapshot at which they were last the same
    merge      one effect, which names these three
    tell       the line in the parent session; recorded again after a crash, it is the same line
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from perdure.agent.call_report import bounded
from perdure.agent.files.branch import (
    MergeReport,
    folder_path,
    merge_branch,
    record_in_log,
    session_folder,
    snapshot_folder,
    storage_folder,
)
from perdure.agent.files.snapshot import Snapshots
from perdure.agent.history.state_reader import state_of
from perdure.domain.effect import Effect, EffectState
from perdure.domain.session import TERMINAL, SessionRecord
from perdure.errors import ConfigError, IllegalMove, NotFound
from perdure.ids import decode
from perdure.runtime.definitions.program import program
from perdure.runtime.runtime import Runtime
from perdure.runtime.session import Session
from perdure.store.move import StoreTransaction
from perdure.store.moves import effect as effects
from perdure.store.moves import session as sessions

SHOWN = 4000  # characters of the list of written and removed files
MERGE_PROGRAM = "bring_home"


@program
async def bring_home(s: Session, branch: str, mark: bool = False) -> MergeReport:
    """Merge a branch that has ended."""
    runtime = s._run.runtime

    async def prepare() -> dict[str, Any]:
        return await prepare_merge(runtime, branch, mark)

    async def record() -> None:
        await record_merge(runtime, branch, made, s.uid)

    arguments = await s.step("look", prepare)
    made = await s.do(merge_branch, **arguments)
    await s.step("tell", record)
    return made


def branch_and_parent(tx: StoreTransaction, uid: str) -> tuple[SessionRecord, SessionRecord]:
    """A branch, and the session that it was forked from."""
    branch = sessions.get(tx, uid)
    if branch.forked_from is None:
        raise ConfigError(f"Session {branch.id} is not a branch, so it cannot be merged.", hint="Name a branch.")
    return branch, sessions.get(tx, branch.forked_from)


async def merge_folders(
    runtime: Runtime, branch: SessionRecord, parent: SessionRecord
) -> tuple[Path, Path | None, Path]:
    """The folder of the snapshots, the folder of the branch if it still exists, and the folder to merge into."""
    both = [await runtime.store.read(session_folder, one) for one in (branch, parent)]
    if both[0] is None or both[1] is None:
        raise ConfigError(f"Session {branch.id} has no folder, so there are no files to merge.")
    home = snapshot_folder(both[0].repository, storage_folder(runtime))
    own, there = (folder_path(one, home) if one else None for one in both)
    own = own if own is not None and own.is_dir() else None
    if home is None or (own is None and branch.status not in TERMINAL):
        raise IllegalMove(f"Branch {branch.id} has no folder here yet.", hint="Run it first, with `perdure resume`.")
    if there is None or not there.is_dir():
        raise IllegalMove(f"The folder of session {parent.id} does not exist here, so the branch cannot be merged.")
    return home, own, there


async def prepare_merge(runtime: Runtime, uid: str, mark: bool) -> dict[str, Any]:
    """The arguments of a merge, from what is recorded and what the folders hold now."""
    branch, parent = await runtime.store.read(branch_and_parent, uid)
    home, own, folder = await merge_folders(runtime, branch, parent)
    base = await _base(runtime, branch, str(folder))
    if own is None:
        theirs = (await runtime.store.read(_state, branch)).snapshot
    else:
        theirs = (await asyncio.to_thread(Snapshots(own, home).take, "before the merge")).commit
    if theirs is None:
        raise NotFound(f"There is no snapshot of branch {branch.id}.", hint="There is nothing to merge.")
    ours = (await asyncio.to_thread(Snapshots(folder, home).take, f"before the merge of {branch.id}")).commit
    return {"folder": str(folder), "home": str(home), "base": base, "ours": ours, "theirs": theirs, "mark": mark}


async def _base(runtime: Runtime, branch: SessionRecord, folder: str) -> str:
    """The snapshot at which the branch and the folder were last the same: the last merge, or else the fork."""
    done, fork = await runtime.store.read(_merges_and_fork, branch)
    for one in reversed(done):
        if one.state == EffectState.ACKNOWLEDGED and one.intent["folder"] == folder:
            made = msgspec.convert(decode(runtime.values.get(one.result, one.artifact)), MergeReport | None)
            if made is not None and (made.marked or not made.conflicts):
                return str(one.intent["theirs"])
    if fork is None:
        raise NotFound(
            f"There is no snapshot of the files at the fork of {branch.id}, so its changes are unknown.",
            hint="Compare the two folders by hand.",
        )
    return fork


def _merges_and_fork(tx: StoreTransaction, branch: SessionRecord) -> tuple[list[Effect], str | None]:
    by = [branch, *merge_sessions(tx, branch)]
    done = [one for session in by for one in effects.of_session(tx, session.uid) if one.tool == merge_branch.name]
    fork, _ = state_of(tx, sessions.get(tx, branch.forked_from or ""), branch.forked_at or 0)
    return done, fork.snapshot


def merge_sessions(tx: StoreTransaction, branch: SessionRecord) -> list[SessionRecord]:
    """The sessions that merged a branch after its end, in order."""
    named = sessions.numbered(tx, merge_id_prefix(branch))
    return [one for one in named if one.program == MERGE_PROGRAM and one.arguments.get("branch") == branch.uid]


def merge_id_prefix(branch: SessionRecord) -> str:
    """Sessions that merge a branch have this id and a number."""
    return f"{branch.id[:180]}.merge-"


def _state(tx: StoreTransaction, session: SessionRecord) -> Any:
    return state_of(tx, session)[0]


async def record_merge(runtime: Runtime, uid: str, made: MergeReport, key: str) -> None:
    """Record the merge in the log of the parent session, once; `key` identifies the merge."""
    branch, parent = await runtime.store.read(branch_and_parent, uid)
    if made.snapshot is None or not (made.written or made.removed):
        return
    paths = [f"written {one}" for one in made.written] + [f"removed {one}" for one in made.removed]
    text = bounded(f"The person merged branch {branch.id} into this folder: {', '.join(paths)}.", SHOWN)
    body = {"role": "note", "about": "performed", "content": text, "snapshot": made.snapshot, "merge": key}
    await record_in_log(runtime, parent.uid, body, key="merge")
