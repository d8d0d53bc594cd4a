"""Rewind in place: put the files of a session's own folder back to an earlier event, after a snapshot of what is there.

    plan       a snapshot of the folder, and what would change: nothing is written to the folder
    start      a session that only does this (`ID.rewind-1`), with what the plan found as its arguments
    run        that session: each path is replaced only if it still holds what the plan found

Killed before the start, nothing has happened. Killed after it, `finish_rewind`, the next rewind of this folder,
`perdure resume` or a worker finishes it.
"""

from __future__ import annotations

import asyncio
import os

import msgspec

from perdure.agent.commands.own_files import own_files
from perdure.agent.files.branch import session_folder
from perdure.agent.files.checkout import NOTHING
from perdure.agent.files.rewind.folder_rewind import (
    KEPT_HIDDEN,
    FolderRewind,
    KeptPath,
    folder_changes,
    folder_of,
    rewind_folder,
)
from perdure.agent.files.snapshot import Snapshots
from perdure.control.branches.busy import refuse_busy, refuse_held
from perdure.control.branches.files import run_until_idle, side_at
from perdure.domain.session import TERMINAL, SessionRecord, Status
from perdure.errors import ConfigError, Conflict, SessionWaiting
from perdure.ids import storable
from perdure.runtime.runtime import Runtime, SessionView
from perdure.store.move import StoreTransaction
from perdure.store.moves import session as sessions


class RewindPlan(msgspec.Struct, frozen=True):
    """What a rewind in place would change. Nothing has changed yet, except that the folder has a snapshot more."""

    session: str
    event: int | None  # None: the target was given as a snapshot
    folder: str
    before: str  # the snapshot of what the folder holds now: rewinding to it takes the rewind back
    target: str
    added: list[str] = []
    changed: list[str] = []
    removed: list[str] = []
    kept: list[KeptPath] = []  # these stay as they are
    unsaved: list[str] = []  # in the folder and in no snapshot: they stay as they are
    left_out: list[str] = []  # what the target could not hold
    own: list[str] = []
    unfinished: str | None = None  # the session of an earlier rewind that was interrupted

    @property
    def is_empty(self) -> bool:
        return not (self.added or self.changed or self.removed)


class InPlaceRewind(msgspec.Struct, frozen=True):
    """A rewind in place: the plan and its result."""

    plan: RewindPlan
    result: FolderRewind
    by_session: str | None = None  # the session that did it; None if there was nothing to do


async def plan_rewind(runtime: Runtime, name: str, *, to: int | None = None, snapshot: str | None = None) -> RewindPlan:
    """What a rewind of the session's folder to an event, or to one of its snapshots, would change."""
    if (to is None) == (snapshot is None):
        raise ConfigError("Name what to rewind to: an event or a snapshot.", hint="Give one of --to and --snapshot.")
    session = await runtime.store.read(sessions.find, name)
    folder, home = await folder_of(runtime, session.uid)
    target, left_out = snapshot or "", list[str]()
    if to is not None:
        side = await runtime.store.read(side_at, session, to)
        target, left_out = side.snapshot, list(side.not_kept)
    own = [one.relative_to(folder) for one in own_files(runtime, folder) if folder in one.parents]
    earlier = await runtime.store.read(_unfinished, session)
    plan = RewindPlan(
        session.id, to, str(folder), "", target, left_out=left_out, own=[storable(str(one)) for one in own],
        unfinished=None if earlier is None else earlier.id,
    )  # fmt: skip
    return await asyncio.to_thread(_compare, plan, Snapshots(folder, home))


def _compare(plan: RewindPlan, snapshots: Snapshots) -> RewindPlan:
    """Take a snapshot of the folder, and complete the plan with what differs."""
    with snapshots.lock() as store:
        store.tree(plan.target)  # first, so that an unknown snapshot changes nothing here
        now = snapshots.take_locked(store, f"before the rewind to {plan.target[:12]}")
        changes, kept = folder_changes(store, snapshots, now.commit, plan.target, plan.left_out, plan.own)
    new = [one.path for one in changes if one.is_written and one.old_mode == NOTHING]
    hidden = {path for path in new if os.path.lexists(snapshots.folder / path) and not _is_folder(snapshots, path)}
    kept += [KeptPath(path, KEPT_HIDDEN) for path in sorted(hidden)]
    return msgspec.structs.replace(
        plan,
        before=now.commit,
        added=[storable(path) for path in new if path not in hidden],
        changed=[storable(one.path) for one in changes if one.is_written and one.old_mode != NOTHING],
        removed=[storable(one.path) for one in changes if not one.is_written],
        kept=[KeptPath(storable(one.path), one.why) for one in kept],
        unsaved=now.not_kept,
    )


def _is_folder(snapshots: Snapshots, path: str) -> bool:
    there = snapshots.folder / path
    return there.is_dir() and not there.is_symlink()


async def rewind_in_place(runtime: Runtime, plan: RewindPlan) -> InPlaceRewind:
    """Do what a plan says. A path that has changed since the plan was made is refused and reported."""
    if plan.is_empty:
        return InPlaceRewind(plan, FolderRewind(kept=plan.kept, snapshot=plan.before))
    await finish_rewind(runtime, plan.session)
    session = await runtime.store.read(sessions.find, plan.session)
    if (there := await runtime.store.read(session_folder, session)) is not None:
        await refuse_busy(runtime, there, "the folder to rewind")
    earlier = await runtime.store.read(sessions.numbered, _id_prefix(session))
    bound = rewind_folder.bind(session.uid, plan.event, plan.before, plan.target, plan.left_out, plan.own)
    made = await runtime.start(
        bound, id=f"{_id_prefix(session)}{len(earlier) + 1}", owner=session.owner, repository=session.repository,
        title=f"the rewind of {session.id} in place",
    )  # fmt: skip
    result = await _result(runtime, await run_until_idle(runtime, made.uid))
    known = {one.path for one in plan.kept}  # the plan said that they stay
    refused = [one for one in result.refused if one.path not in known]
    return InPlaceRewind(plan, msgspec.structs.replace(result, refused=refused), made.id)


async def finish_rewind(runtime: Runtime, name: str) -> InPlaceRewind | None:
    """Finish a rewind of this session's folder that was interrupted; None if there is none."""
    session = await runtime.store.read(sessions.find, name)
    earlier = await runtime.store.read(_unfinished, session)
    if earlier is None:
        return None
    await refuse_held(runtime, earlier, "the folder to rewind")
    result = await _result(runtime, await run_until_idle(runtime, earlier.uid))
    folder, _ = await folder_of(runtime, session.uid)
    given = earlier.arguments
    plan = RewindPlan(session.id, given["event"], str(folder), given["before"], given["target"])
    return InPlaceRewind(plan, result, earlier.id)


def _unfinished(tx: StoreTransaction, session: SessionRecord) -> SessionRecord | None:
    earlier = [one for one in sessions.numbered(tx, _id_prefix(session)) if _is_rewind_of(one, session)]
    return earlier[-1] if earlier and earlier[-1].status not in TERMINAL else None


def _is_rewind_of(one: SessionRecord, session: SessionRecord) -> bool:
    return one.program == rewind_folder.name and one.arguments.get("session") == session.uid


async def _result(runtime: Runtime, view: SessionView) -> FolderRewind:
    if view.status not in TERMINAL:
        waits = ", ".join(sorted({one.kind for one in view.waits})) or "a worker"
        raise SessionWaiting(
            f"The rewind is requested; session {view.id} waits for {waits} first.",
            hint=f"`perdure show {view.id}` shows what to type.", waits=list(view.waits),
        )  # fmt: skip
    if view.status != Status.DONE:
        raise Conflict(
            str((view.error or {}).get("message") or view.status), hint="Check what changed, and rewind again."
        )
    result: FolderRewind = runtime.result_of(view)
    return result


def _id_prefix(session: SessionRecord) -> str:
    """Rewinds of a session have this id and a number."""
    return f"{session.id[:180]}.rewind-"
