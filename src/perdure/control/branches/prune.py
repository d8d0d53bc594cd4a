"""Prune: remove snapshots that no session refers to, and folders of branches that have ended.

    folders    of a branch that has ended, that no session works in, and that contain nothing stored nowhere else
    snapshots  that no message, no effect and no fork of any session refers to, and that are older than the grace

Each folder and each repository is removed separately; a kill between two leaves the rest for the next time. It is safe
beside workers: the snapshots are locked while they are used, a session that has not ended keeps all of its snapshots,
and snapshots younger than the grace are kept, because their message may not be recorded yet.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from perdure.agent.files import worktree
from perdure.agent.files.branch import merge_branch, open_worktree, session_folder, snapshot_folder, storage_folder
from perdure.agent.files.prune import PruneResult
from perdure.agent.files.rewind.folder_rewind import rewind_files
from perdure.agent.files.snapshot import Snapshots
from perdure.agent.files.worktree import FolderRemoval, clear
from perdure.agent.history.state_reader import state_of
from perdure.clock import SECOND
from perdure.domain.session import TERMINAL, SessionRecord
from perdure.errors import PerdureError
from perdure.runtime.definitions.durations import microseconds
from perdure.runtime.runtime import Runtime
from perdure.store.move import StoreTransaction
from perdure.store.moves import access as access_log
from perdure.store.moves import effect as effects
from perdure.store.moves import message
from perdure.store.moves import session as sessions

GRACE = 3600  # seconds
FOLDER_TOOLS = (merge_branch.name, open_worktree.name, rewind_files.name)
SNAPSHOT_ARGUMENTS = ("snapshot", "base", "ours", "theirs", "before", "target")


class NeededSnapshots(msgspec.Struct):
    """The snapshots that the sessions on one repository need."""

    named: set[str] = msgspec.field(default_factory=set)
    living: set[str] = msgspec.field(default_factory=set)  # those of sessions that have not ended
    working: set[str] = msgspec.field(default_factory=set)  # branches whose folders may be in use
    last: dict[str, str | None] = msgspec.field(default_factory=dict)  # the last snapshot of each branch that has ended


class PruneReport(msgspec.Struct, frozen=True):
    """What was removed, or with `plan` would be; `bytes` is how much that frees. `reads`: lines of the access log."""

    plan: bool
    folders: list[FolderRemoval]
    repositories: dict[str, PruneResult]
    bytes: int
    reads: int = 0


async def prune_all(
    runtime: Runtime, *, ended: str | float | None = None, access: str | float | None = None, plan: bool = False
) -> PruneReport:
    """Remove the folders of branches that have ended, and unused snapshots.

    With `ended`, also the snapshots of sessions that ended longer ago than that; with `access`, also the lines of the
    access log that are older than that.
    """
    reads = 0 if access is None else await _forget_reads(runtime, microseconds(access), plan=plan)
    before = None if ended is None else runtime.store.clock.now() - microseconds(ended)
    folders = await clear_folders(runtime, plan=plan)
    pruned = await prune(runtime, ended_before=before, plan=plan)
    freed = sum(one.bytes for one in folders) + sum(one.bytes_before - one.bytes_after for one in pruned.values())
    return PruneReport(plan, folders, pruned, freed, reads)


async def _forget_reads(runtime: Runtime, age: int, *, plan: bool) -> int:
    """Forget old lines of the access log; the control log says how many."""
    before, done = runtime.store.clock.now() - age, 0
    if plan:
        return await runtime.store.read(access_log.count, before)
    while found := await runtime.store.write(access_log.forget(before, runtime.by)):
        done += found
    return done


async def prune(
    runtime: Runtime, *, grace: int = GRACE, ended_before: int | None = None, plan: bool = False
) -> dict[str, PruneResult]:
    """Remove unused snapshots of each repository; with `plan`, only report which would be removed.

    Only snapshots beside this store are removed: sessions of another store may refer to others. Snapshots younger than
    `grace` seconds are kept. Of sessions that ended before `ended_before`, only what others branched from is kept.
    """
    now = runtime.store.clock.now() / SECOND
    done: dict[str, PruneResult] = {}
    for repository, (home, needed) in (await _homes(runtime, ended_before)).items():
        if (folder := Path(repository)).is_dir():
            shots = Snapshots(folder, home)
            keep, at = sorted(needed.named), now if plan else None
            found = await asyncio.to_thread(shots.prune, keep, grace=grace, plan_at=at)
            missing = tuple(one for one in found.missing if one in needed.living)
            done[repository] = msgspec.structs.replace(found, missing=missing)
    return done


async def clear_folders(runtime: Runtime, *, only: str | None = None, plan: bool = False) -> list[FolderRemoval]:
    """Remove the folders of branches that have ended, all or one by its uid, if they contain nothing unique."""
    done: list[FolderRemoval] = []
    for home, needed in (await _homes(runtime, None)).values():
        for there in await asyncio.to_thread(worktree.list_worktrees, home):
            ended = there.branch in needed.last and there.branch not in needed.working
            if ended and only in (None, there.branch):
                found = await asyncio.to_thread(_clear, home, there, needed.last[there.branch], plan)
                name = (await runtime.get(there.branch)).id
                done.append(msgspec.structs.replace(found, branch=name))
    return done


def _clear(home: Path, there: worktree.Worktree, last: str | None, plan: bool) -> FolderRemoval:
    try:
        return clear(home, there, last, plan=plan)
    except PerdureError as error:
        return FolderRemoval(there.branch, there.folder.decode(errors="replace"), kept=error.message)


async def _homes(runtime: Runtime, ended_before: int | None) -> dict[str, tuple[Path, NeededSnapshots]]:
    """By repository: the folder of its snapshots beside this store, and which of them are needed."""
    beside = storage_folder(runtime)
    found: dict[str, tuple[Path, NeededSnapshots]] = {}
    async for one in runtime.sessions():
        home = None if one.repository is None else snapshot_folder(one.repository, beside)
        if home is None or beside is None or beside.resolve() not in home.parents or not home.is_dir():
            continue
        needed = found.setdefault(one.repository or "", (home, NeededSnapshots()))[1]
        await runtime.store.read(_add_needed, one, needed, ended_before)
    return found


def _add_needed(
    tx: StoreTransaction, session: SessionRecord, needed: NeededSnapshots, ended_before: int | None
) -> None:
    ended = session.status in TERMINAL
    folder = session_folder(tx, session)
    if not ended and folder is not None and folder.branch is not None:
        needed.working.add(folder.branch)
    if ended and session.forked_from is not None:
        needed.last[session.uid] = state_of(tx, session)[0].snapshot
    if ended and ended_before is not None and session.updated_at < ended_before:
        return
    named = _referenced(tx, session)
    needed.named |= named
    needed.living |= set() if ended else named


def _referenced(tx: StoreTransaction, session: SessionRecord) -> set[str]:
    """The snapshots of the messages and effects of a session, and those of its parent, at the fork and now."""
    lines = message.lines_between(tx, session.uid, 1)
    bodies = [one.body for one in lines if isinstance(one.body, dict)]
    named = {body.get(name) for body in bodies for name in ("snapshot", "before")}
    acts = [one for one in effects.of_session(tx, session.uid) if one.tool in FOLDER_TOOLS]
    named |= {act.intent.get(name) for act in acts for name in SNAPSHOT_ARGUMENTS}
    if session.forked_from is not None:
        parent = sessions.get(tx, session.forked_from)
        named |= {state_of(tx, parent, session.forked_at or 0)[0].snapshot, state_of(tx, parent)[0].snapshot}
    return {name for name in named if name}
