"""Prune: drop snapshots that no session names, and folders of branches that have ended.

    folders    of a branch that has ended, that nobody works in, and in which nothing would be lost
    snapshots  that no line, no effect and no fork of any session names, and that are older than the grace

Each folder and each repository is dropped by itself, and a kill between two leaves the rest for the next time. Beside a
worker it is safe: the place of the snapshots is locked while it is used, a session that lives keeps all of its own, and
what is younger than the grace stays, because its line may not be written yet.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from perdure.agent.files import worktree
from perdure.agent.files.branch import merge_branch, open_worktree, session_folder, snapshot_folder, storage_folder
from perdure.agent.files.prune import PruneResult
from perdure.agent.files.snapshot import Snapshots
from perdure.agent.files.worktree import FolderRemoval, clear
from perdure.agent.history.state_reader import state_of
from perdure.clock import SECOND
from perdure.domain.session import TERMINAL, SessionRecord
from perdure.errors import PerdureError
from perdure.runtime.runtime import Runtime
from perdure.store.move import StoreTransaction
from perdure.store.moves import effect as effects
from perdure.store.moves import message
from perdure.store.moves import session as sessions

GRACE = 3600  # seconds


class NeededSnapshots(msgspec.Struct):
    """What the sessions on one repository need, as they are found."""

    named: set[str] = msgspec.field(default_factory=set)
    living: set[str] = msgspec.field(default_factory=set)  # of these, what is named by sessions that have not ended
    working: set[str] = msgspec.field(default_factory=set)  # branches in whose folders somebody may be at work
    last: dict[str, str | None] = msgspec.field(default_factory=dict)  # of branches that have ended: the last snapshot


async def prune(
    runtime: Runtime, *, grace: int = GRACE, ended_before: int | None = None, plan: bool = False
) -> dict[str, PruneResult]:
    """Drop the snapshots that nobody names, repository by repository; with `plan`, only say which would be.

    Only those beside this store are touched: elsewhere, sessions of another store may name them. What is younger than
    `grace` seconds stays. Sessions that ended before a time keep no files but those that others branched from.
    """
    now = runtime.store.clock.now() / SECOND
    done: dict[str, PruneResult] = {}
    for repository, (home, spared) in (await _homes(runtime, ended_before)).items():
        if (folder := Path(repository)).is_dir():
            shots = Snapshots(folder, home)
            keep, at = sorted(spared.named), now if plan else None
            found = await asyncio.to_thread(shots.prune, keep, grace=grace, plan_at=at)
            missing = tuple(one for one in found.missing if one in spared.living)
            done[repository] = msgspec.structs.replace(found, missing=missing)
    return done


async def clear_folders(runtime: Runtime, *, only: str | None = None, plan: bool = False) -> list[FolderRemoval]:
    """Remove the folders of branches that have ended, all or one by its uid, where nothing in them would be lost."""
    done: list[FolderRemoval] = []
    for home, spared in (await _homes(runtime, None)).values():
        for there in await asyncio.to_thread(worktree.list_worktrees, home):
            ended = there.branch in spared.last and there.branch not in spared.working
            if ended and only in (None, there.branch):
                found = await asyncio.to_thread(_cleared, home, there, spared.last[there.branch], plan)
                name = (await runtime.get(there.branch)).id
                done.append(msgspec.structs.replace(found, branch=name))
    return done


def _cleared(home: Path, there: worktree.Worktree, last: str | None, plan: bool) -> FolderRemoval:
    try:
        return clear(home, there, last, plan=plan)
    except PerdureError as error:
        return FolderRemoval(there.branch, there.folder.decode(errors="replace"), kept=error.message)


async def _homes(runtime: Runtime, ended_before: int | None) -> dict[str, tuple[Path, NeededSnapshots]]:
    """By repository: where its snapshots are, and what is needed of them. Only what is beside this store."""
    beside = storage_folder(runtime)
    found: dict[str, tuple[Path, NeededSnapshots]] = {}
    async for one in runtime.sessions():
        home = None if one.repository is None else snapshot_folder(one.repository, beside)
        if home is None or beside is None or beside.resolve() not in home.parents or not home.is_dir():
            continue
        spared = found.setdefault(one.repository or "", (home, NeededSnapshots()))[1]
        await runtime.store.read(_spare, one, spared, ended_before)
    return found


def _spare(tx: StoreTransaction, session: SessionRecord, spared: NeededSnapshots, ended_before: int | None) -> None:
    ended = session.status in TERMINAL
    folder = session_folder(tx, session)
    if not ended and folder is not None and folder.branch is not None:
        spared.working.add(folder.branch)
    if ended and session.forked_from is not None:
        spared.last[session.uid] = state_of(tx, session)[0].snapshot
    if ended and ended_before is not None and session.updated_at < ended_before:
        return
    named = _named(tx, session)
    spared.named |= named
    spared.living |= set() if ended else named


def _named(tx: StoreTransaction, session: SessionRecord) -> set[str]:
    """What a session's lines and effects name, and what it was branched from, then and now."""
    lines = message.lines_between(tx, session.uid, 1)
    said = {one.body.get("snapshot") for one in lines if isinstance(one.body, dict)}
    acts = [one for one in effects.of_session(tx, session.uid) if one.tool in (merge_branch.name, open_worktree.name)]
    said |= {act.intent.get(name) for act in acts for name in ("snapshot", "base", "ours", "theirs")}
    if session.forked_from is not None:
        parent = sessions.get(tx, session.forked_from)
        said |= {state_of(tx, parent, session.forked_at or 0)[0].snapshot, state_of(tx, parent)[0].snapshot}
    return {name for name in said if name}
