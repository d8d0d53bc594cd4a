"""Merge: bring what a branch changed home, into the folder of the session that it was branched from.

It is ordered and not done here: the branch carries it out as an effect of its own, so a kill anywhere leaves an effect
to be recovered and never half a merge that nobody knows of.

    finish     an order that an earlier merge left behind
    look       a snapshot of the parent's folder and of the branch's, while nobody works in either
    order      one message to the branch
    run        the branch, until it has carried the order out

Killed before the order there are two snapshots more and nothing else; after it, whoever runs the branch next does it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from perdure.agent.branching import Merged, beside_of, folder_of, home_of, merge_branch, place_of
from perdure.agent.reading import state_of
from perdure.agent.snapshot import Snapshots
from perdure.agent.transcript import Line, State
from perdure.control.branches import rested
from perdure.domain.effect import EffectState
from perdure.domain.session import TERMINAL, SessionRecord, Status
from perdure.domain.wait import WaitKind
from perdure.domain.worker import Life
from perdure.errors import ConfigError, Conflict, IllegalMove, LeaseHeld, NotFound, SessionWaiting
from perdure.ids import decode
from perdure.runtime.runtime import Runtime, SessionView
from perdure.store import effect as effects
from perdure.store import inbox, worker
from perdure.store import session as sessions
from perdure.store.move import Transaction


class Merging(msgspec.Struct, frozen=True):
    """A branch that was brought home, or what stands in the way."""

    branch: str
    parent: str
    folder: str
    effect: str
    merged: Merged


async def merge(runtime: Runtime, name: str, *, mark: bool = False) -> Merging:
    """Bring a branch home into the folder of the session that it was branched from.

    Nothing is written where there are conflicts, unless they are to be marked in the files.
    """
    branch, parent = await runtime.store.read(_branch_and_parent, name)
    home, own, folder = await _places(runtime, branch, parent)
    await _refuse_busy(runtime, branch, parent)
    left = await _finish(runtime, branch, parent, folder)
    arguments = {
        "folder": str(folder), "home": str(home), "base": await runtime.store.read(_base, branch, str(folder)),
        "ours": (await asyncio.to_thread(Snapshots(folder, home).take, f"before the merge of {branch.id}")).commit,
        "theirs": (await asyncio.to_thread(Snapshots(own, home).take, "before the merge")).commit, "mark": mark,
    }  # fmt: skip
    await runtime.send(branch.uid, {"perform": {"tool": merge_branch.name, "arguments": arguments}})
    made = await _carried_out(runtime, branch, parent, folder)
    is_empty = not (made.merged.written or made.merged.removed or made.merged.conflicts)
    return left if left is not None and is_empty else made


def _branch_and_parent(tx: Transaction, name: str) -> tuple[SessionRecord, SessionRecord]:
    branch = sessions.find(tx, name)
    if branch.forked_from is None:
        raise ConfigError(f"Session {branch.id} is no branch: there is nowhere to bring it.", hint="Name a branch.")
    return branch, sessions.get(tx, branch.forked_from)


async def _places(runtime: Runtime, branch: SessionRecord, parent: SessionRecord) -> tuple[Path, Path, Path]:
    """Where the snapshots are, where the branch works, and where it is brought."""
    both = [await runtime.store.read(folder_of, one) for one in (branch, parent)]
    if both[0] is None or both[1] is None:
        raise ConfigError(f"Session {branch.id} works in no folder: there are no files to merge.")
    home = home_of(both[0].repository, beside_of(runtime))
    own, there = (place_of(one, home) if one else None for one in both)
    if home is None or own is None:
        raise IllegalMove(f"Branch {branch.id} has no folder here yet.", hint="Run it first: `perdure resume` does.")
    if there is None or not there.is_dir():
        raise IllegalMove(f"The folder of session {parent.id} is not here: there is nowhere to bring the branch.")
    return home, own, there


async def _finish(runtime: Runtime, branch: SessionRecord, parent: SessionRecord, folder: Path) -> Merging | None:
    """Carry out an order that was left behind, and refuse a branch that is in the middle of something else."""
    if await runtime.store.read(_ordered, branch):
        return await _carried_out(runtime, branch, parent, folder)
    view = await runtime.get(branch.uid)
    if view.status in TERMINAL:
        raise IllegalMove(f"Session {view.id} is {view.status}, and a merge is done by a session that goes on.")
    await _refuse_held(runtime, view, "the branch itself")
    if await runtime.store.read(_has_nothing_to_do, branch):  # it may have died on its way to rest
        view = await rested(runtime, branch.uid)
    if not any(one.kind == WaitKind.INPUT and one.ref is None for one in view.waits):
        raise IllegalMove(
            f"Branch {view.id} is in the middle of its work.", hint="Let it come to rest first: `perdure resume` does."
        )
    return None


def _ordered(tx: Transaction, branch: SessionRecord) -> bool:
    unread = [one.body for one in inbox.unread(tx, branch.uid)]
    orders = [one["perform"] for one in unread if isinstance(one, dict) and isinstance(one.get("perform"), dict)]
    line = _state(tx, branch).open_order()
    orders += [] if line is None or line.order is None else [line.order]
    return any(one.get("tool") == merge_branch.name for one in orders)


def _has_nothing_to_do(tx: Transaction, branch: SessionRecord) -> bool:
    state = _state(tx, branch)
    waits = state.answer() is not None or state.stopped() is not None
    return waits and not state.open_calls() and not inbox.unread(tx, branch.uid, limit=1)


async def _refuse_busy(runtime: Runtime, branch: SessionRecord, parent: SessionRecord) -> None:
    """Nobody may be at work where the branch is brought: two hands in one folder undo each other."""
    there = await runtime.store.read(folder_of, parent)
    async for one in runtime.sessions(status=Status.RUNNING, repository=parent.repository):
        if one.uid != branch.uid and await runtime.store.read(folder_of, one) == there:
            await _refuse_held(runtime, one, "the folder that the branch is brought to")


async def _refuse_held(runtime: Runtime, session: SessionRecord, what: str) -> None:
    holder = session.lease_holder or ""
    if session.status != Status.RUNNING or (session.lease_until or 0) < runtime.store.clock.now():
        return
    known = {one.id: one for one in await runtime.store.read(worker.workers)}
    row = known.get(holder.split("@", 1)[0])
    if row is None or runtime.worker.life(row) is not Life.DEAD:
        raise LeaseHeld(
            f"{holder} runs session {session.id} in {what}; nothing was merged.",
            hint=f"Wait until it rests, or type `perdure pause {session.id}`.", holder=holder,
        )  # fmt: skip


def _base(tx: Transaction, branch: SessionRecord, folder: str) -> str | None:
    """Where the branch and the folder were last the same: at the last merge, or else at the fork."""
    for one in reversed(effects.of_session(tx, branch.uid)):
        if one.tool == merge_branch.name and one.state == EffectState.ACKNOWLEDGED and one.intent["folder"] == folder:
            made = msgspec.convert(decode(one.result or "null"), Merged | None)
            if made is not None and (made.marked or not made.conflicts):
                return str(one.intent["theirs"])
    fork, _ = state_of(tx, sessions.get(tx, branch.forked_from or ""), branch.forked_at or 0)
    if fork.snapshot is None:
        raise NotFound(
            f"The files at the fork of {branch.id} were not kept, so nobody can tell what it changed.",
            hint="Compare the two folders by hand.",
        )
    return fork.snapshot


async def _carried_out(runtime: Runtime, branch: SessionRecord, parent: SessionRecord, folder: Path) -> Merging:
    """Run the branch until it has done what was ordered, and tell what came of it."""
    since = (await runtime.store.read(_state, branch)).number
    view = await rested(runtime, branch.uid)
    state = await runtime.store.read(_state, branch)
    line = next((one for one in reversed(state.lines) if _is_report(one, branch, since)), None)
    if line is None:
        raise _not_yet(view)
    if line.body.get("status") != "done" or line.body.get("effect") is None:
        raise Conflict(str(line.body.get("content")), hint="Look at what changed, and merge again.")
    effect = await runtime.store.read(effects.get, branch.uid, line.body["effect"])
    made = msgspec.convert(decode(runtime.values.get(effect.result, effect.artifact)), Merged)
    return Merging(branch.id, parent.id, str(folder), effect.id, made)


def _state(tx: Transaction, session: SessionRecord) -> State:
    return state_of(tx, session)[0]


def _is_report(line: Line, branch: SessionRecord, since: int) -> bool:
    return (
        line.uid == branch.uid and line.number > since and line.body.get("about") == "performed" and "of" in line.body
    )


def _not_yet(view: SessionView) -> Exception:
    asks = ", ".join(sorted({one.kind for one in view.waits})) or "its turn"
    return SessionWaiting(
        f"The merge is ordered, and branch {view.id} waits for {asks} before it is done.",
        hint=f"`perdure show {view.id}` says what to type.", waits=list(view.waits),
    )  # fmt: skip
