"""Merge: bring the changes of a branch into the folder of the session that it was branched from.

The merge is an effect of a session, not an action of this process. A kill at any point leaves an effect to be
recovered, and never an unrecorded part of a merge.

    finish     an order that an earlier merge left behind
    order      one message to the branch; for a branch that has ended, a session that only merges
    run        that session until the merge is done: it reads both folders, merges, and informs the parent

Killed before the order, nothing has happened. Killed after it, the next process that runs that session does it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from perdure.agent.files.branch import MergeReport, merge_branch, session_folder
from perdure.agent.files.branch_merge import (
    branch_and_parent,
    bring_home,
    merge_folders,
    merge_id_prefix,
    merge_sessions,
)
from perdure.agent.git.command_line import SAFE, run
from perdure.agent.git.head import head_of
from perdure.agent.history.state_reader import state_of
from perdure.agent.history.transcript import Line, State
from perdure.control.branches.busy import refuse_busy, refuse_held
from perdure.control.branches.files import run_until_idle
from perdure.domain.session import TERMINAL, SessionRecord, Status
from perdure.domain.wait import WaitKind
from perdure.errors import Conflict, IllegalMove, SessionWaiting
from perdure.ids import decode
from perdure.runtime.runtime import Runtime, SessionView
from perdure.store.move import StoreTransaction
from perdure.store.moves import effect as effects
from perdure.store.moves import inbox
from perdure.store.moves import session as sessions


class MergeResult(msgspec.Struct, frozen=True):
    """The result of a merge: what was merged, or the conflicts."""

    branch: str
    parent: str
    folder: str
    effect: str
    merged: MergeReport
    not_kept: list[str] = []  # files of the branch that its last snapshot does not contain, and that were not merged
    commits: str | None = None  # the last commit of the branch, if the folder does not have it


async def merge(runtime: Runtime, name: str, *, mark: bool = False) -> MergeResult:
    """Merge a branch into the folder of the session that it was branched from.

    If there are conflicts, nothing is written unless `mark` is true, which writes them between markers.
    """
    branch, parent = await runtime.store.read(_branch_and_parent, name)
    _, own, folder = await merge_folders(runtime, branch, parent)
    if (there := await runtime.store.read(session_folder, parent)) is not None:
        await refuse_busy(runtime, there, "the folder to merge into", but=branch.uid)
    by_itself = branch.status not in TERMINAL
    left = await (_finish if by_itself else _finish_merge_session)(runtime, branch, parent, folder)
    if by_itself:
        await runtime.send(branch.uid, {"perform": {"tool": merge_branch.name, "arguments": {"mark": mark}}})
        made = await _run_order(runtime, branch, parent, folder)
    else:
        made = await _start_merge_session(runtime, branch, parent, folder, mark)
    is_empty = not (made.merged.written or made.merged.removed or made.merged.conflicts)
    made = left if left is not None and is_empty else made
    commits = None if own is None else await asyncio.to_thread(_commits, own, folder)
    not_kept = (await runtime.store.read(_state, branch)).not_kept
    return msgspec.structs.replace(made, commits=commits, not_kept=not_kept)


def _commits(own: Path, folder: Path) -> str | None:
    """The last commit of the branch, if the folder does not have it."""
    theirs, ours = head_of(own), head_of(folder)
    commit = None if theirs is None or ours is None else theirs["commit"]
    if commit is None or ours is None or ours["commit"] is None:
        return None
    asked = ("merge-base", "--is-ancestor", commit, ours["commit"])
    has_it = run(*asked, cwd=folder, answers=(0, 1, 128), settings=SAFE)[0] != 1
    return None if has_it else commit[:12]


def _branch_and_parent(tx: StoreTransaction, name: str) -> tuple[SessionRecord, SessionRecord]:
    return branch_and_parent(tx, sessions.find(tx, name).uid)


async def _finish_merge_session(
    runtime: Runtime, branch: SessionRecord, parent: SessionRecord, folder: Path
) -> MergeResult | None:
    """Continue an unfinished merge of a branch that has ended."""
    there = await runtime.store.read(merge_sessions, branch)
    if not there or there[-1].status in TERMINAL:
        return None
    await refuse_held(runtime, there[-1], "the folder to merge into")
    return await _run_merge_session(runtime, there[-1].uid, branch, parent, folder)


async def _start_merge_session(
    runtime: Runtime, branch: SessionRecord, parent: SessionRecord, folder: Path, mark: bool
) -> MergeResult:
    """Start a session that merges a branch that has ended."""
    prefix = merge_id_prefix(branch)
    number = len(await runtime.store.read(sessions.numbered, prefix)) + 1
    made = await runtime.start(
        bring_home.bind(branch.uid, mark), id=f"{prefix}{number}", owner=branch.owner,
        repository=branch.repository, title=f"the merge of {branch.id}",
    )  # fmt: skip
    return await _run_merge_session(runtime, made.uid, branch, parent, folder)


async def _run_merge_session(
    runtime: Runtime, uid: str, branch: SessionRecord, parent: SessionRecord, folder: Path
) -> MergeResult:
    view = await run_until_idle(runtime, uid)
    if view.status not in TERMINAL:
        raise _not_yet(view)
    if view.status != Status.DONE:
        message = (view.error or {}).get("message") or view.status
        raise Conflict(str(message), hint="Check what changed, and merge again.")
    (effect,) = [one for one in await runtime.store.read(effects.of_session, uid) if one.tool == merge_branch.name]
    return MergeResult(branch.id, parent.id, str(folder), effect.id, runtime.result_of(view))


async def _finish(runtime: Runtime, branch: SessionRecord, parent: SessionRecord, folder: Path) -> MergeResult | None:
    """Finish an order that was left behind, and refuse a branch that is busy."""
    if await runtime.store.read(_ordered, branch):
        return await _run_order(runtime, branch, parent, folder)
    view = await runtime.get(branch.uid)
    await refuse_held(runtime, view, "the branch itself")
    if await runtime.store.read(_has_nothing_to_do, branch):  # its worker may have died just before it came to rest
        view = await run_until_idle(runtime, branch.uid)
    if not any(one.kind == WaitKind.INPUT and one.ref is None for one in view.waits):
        raise IllegalMove(
            f"Branch {view.id} has unfinished work.",
            hint="Run it until it waits for a message first: `perdure resume`.",
        )
    return None


def _ordered(tx: StoreTransaction, branch: SessionRecord) -> bool:
    unread = [one.body for one in inbox.unread(tx, branch.uid)]
    orders = [one["perform"] for one in unread if isinstance(one, dict) and isinstance(one.get("perform"), dict)]
    line = _state(tx, branch).open_order()
    orders += [] if line is None or line.order is None else [line.order]
    return any(one.get("tool") == merge_branch.name for one in orders)


def _has_nothing_to_do(tx: StoreTransaction, branch: SessionRecord) -> bool:
    state = _state(tx, branch)
    waits = state.answer() is not None or state.stopped() is not None
    return waits and not state.open_calls() and not inbox.unread(tx, branch.uid, limit=1)


async def _run_order(runtime: Runtime, branch: SessionRecord, parent: SessionRecord, folder: Path) -> MergeResult:
    """Run the branch until it has done the ordered merge, and return the result."""
    since = (await runtime.store.read(_state, branch)).number
    view = await run_until_idle(runtime, branch.uid)
    state = await runtime.store.read(_state, branch)
    line = next((one for one in reversed(state.lines) if _is_report(one, branch, since)), None)
    if line is None:
        raise _not_yet(view)
    if line.body.get("status") != "done" or line.body.get("effect") is None:
        raise Conflict(str(line.body.get("content")), hint="Check what changed, and merge again.")
    effect = await runtime.store.read(effects.get, branch.uid, line.body["effect"])
    made = msgspec.convert(decode(runtime.values.get(effect.result, effect.artifact)), MergeReport)
    return MergeResult(branch.id, parent.id, str(folder), effect.id, made)


def _state(tx: StoreTransaction, session: SessionRecord) -> State:
    return state_of(tx, session)[0]


def _is_report(line: Line, branch: SessionRecord, since: int) -> bool:
    return (
        line.uid == branch.uid and line.number > since and line.body.get("about") == "performed" and "of" in line.body
    )


def _not_yet(view: SessionView) -> Exception:
    waits = ", ".join(sorted({one.kind for one in view.waits})) or "a worker"
    return SessionWaiting(
        f"The merge is requested; branch {view.id} waits for {waits} first.",
        hint=f"`perdure show {view.id}` shows what to type.", waits=list(view.waits),
    )  # fmt: skip
