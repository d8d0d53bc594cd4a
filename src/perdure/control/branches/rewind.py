"""Rewind: a branch from an earlier event, with the files as they were, that waits for a person before it acts.

One transaction creates the branch with its first messages: the results of calls that were open at that event, and a
note that it was rewound. So a worker that claims the branch cannot call the model or a tool. Then the branch is run
once, which opens its folder. Killed before the transaction, nothing has happened. Killed after it, the next process
that runs the branch opens the folder.

What the original did outside since then stays done. It is listed for the person and for the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from perdure.agent.call_report import CallReport
from perdure.agent.files.branch import folder_path, open_worktree, session_folder, snapshot_folder, storage_folder
from perdure.agent.history.state_reader import state_of
from perdure.agent.history.transcript import OpenCall, State
from perdure.control.branches.files import begun_calls, run_until_idle
from perdure.domain.effect import Effect, EffectState, Replay, Verdict
from perdure.domain.session import TERMINAL, SessionRecord
from perdure.domain.wait import WaitKind
from perdure.errors import ConfigError, PerdureError
from perdure.ids import encode
from perdure.runtime.definitions.tool import TOOLS
from perdure.runtime.runtime import Runtime, SessionView
from perdure.store.move import StoreTransaction
from perdure.store.moves import effect as effects
from perdure.store.moves import session as sessions
from perdure.store.moves import wait

WITHIN = frozenset(
    {"write_file", "edit_file", open_worktree.name}
)  # their changes are in the snapshots and nowhere else
COMMAND = "run_command"
LISTED = 20  # effects outside that are listed for the model
SHORT = 200


class OutsideEffect(msgspec.Struct, frozen=True):
    """An effect outside after the event, which stays done."""

    effect: str
    session: str
    tool: str
    arguments: Any
    reference: str | None
    state: str
    undo: bool  # its tool can undo it


class RewindResult(msgspec.Struct, frozen=True):
    """A branch at an earlier event. `problem` is why its folder could not be opened yet."""

    session: SessionView
    parent: str
    at: int
    snapshot: str | None
    folder: str | None
    outside: list[OutsideEffect]
    problem: str | None = None
    not_kept: list[str] = []  # files that existed at that event and are in no snapshot


async def rewind(
    runtime: Runtime, name: str, *, to: int, id: str | None = None, by: str | None = None, run: bool = True
) -> RewindResult:
    """Branch a session at event `to`, with the files as they were. The branch waits for the next message.

    Without `run`, a worker opens its folder.
    """
    session = await runtime.store.read(sessions.find, name)
    state, outside, lines = await runtime.store.read(_prepare, session, to)
    branch = await runtime.fork(session.uid, at=to, id=id, lines=lines, by=by)
    if not run:
        return RewindResult(branch, session.id, to, state.snapshot, None, outside, not_kept=state.not_kept)
    problem: str | None = None
    try:
        branch = await run_until_idle(runtime, branch.uid)
    except PerdureError as error:
        problem = error.message
    folder = await runtime.store.read(session_folder, branch)
    place: Path | None = None
    if folder is not None and folder.branch is not None:
        place = folder_path(folder, snapshot_folder(folder.repository, storage_folder(runtime)))
    shown = None if place is None else str(place)
    return RewindResult(branch, session.id, to, state.snapshot, shown, outside, problem, state.not_kept)


def _prepare(
    tx: StoreTransaction, session: SessionRecord, number: int
) -> tuple[State, list[OutsideEffect], list[dict[str, Any]]]:
    if not 1 <= number <= session.cursor:
        raise ConfigError(
            f"Session {session.id} has no event {number}; its events are 1 to {session.cursor}.",
            hint=f"`perdure show {session.id} --last 100` shows its events.",
        )
    state, _ = state_of(tx, session, number)
    if not state.lines and state.summary is None:
        if not state_of(tx, session)[0].number:
            raise ConfigError(
                f"Session {session.id} does not belong to an agent, so it has no files to go back to.",
                hint=f"`perdure fork {session.id} --at {number}` branches it.",
            )
        raise ConfigError(f"The transcript is empty at event {number}.", hint="`perdure show` lists the events.")
    outside = outside_since(tx, session, number)
    begun = begun_calls(tx, session, state, number)
    calls = [_result_of_open_call(session, call, begun.get(call.nth)) for call in state.open_calls()]
    return state, outside, [*calls, _note(session, number, outside, state.not_kept)]


def outside_since(tx: StoreTransaction, session: SessionRecord, number: int) -> list[OutsideEffect]:
    """Effects outside of a session and its children after one of its events; commands come last."""
    return sorted(_outside(tx, session, number), key=lambda one: one.tool == COMMAND)


def _outside(tx: StoreTransaction, session: SessionRecord, number: int) -> Iterator[OutsideEffect]:
    for one in effects.of_session(tx, session.uid):
        if (one.number > number or (one.settled_number or number + 1) > number) and _is_outside(one):
            known = TOOLS.get(one.tool)
            can_undo = known is not None and known.undo_tool is not None and session.status not in TERMINAL
            undo = can_undo and one.state == EffectState.ACKNOWLEDGED
            yield OutsideEffect(one.id, session.id, one.tool, one.intent, one.reference, one.state, undo)
    for asked in wait.of_session(tx, session.uid):
        if asked.kind == WaitKind.CHILD and asked.ref is not None and asked.number > number:
            yield from _outside(tx, sessions.get(tx, asked.ref), 0)


def _is_outside(effect: Effect) -> bool:
    """Whether the effect may have changed something that is in no snapshot."""
    if effect.replay in (Replay.PURE, Replay.JOINT) or effect.tool in WITHIN or effect.position[0] == "undo":
        return False
    abandoned = effect.state == EffectState.FAILED and effect.verdict == Verdict.ABANDON
    return abandoned or effect.state in (EffectState.ACKNOWLEDGED, EffectState.DISPATCHED)


def _result_of_open_call(session: SessionRecord, call: OpenCall, begun: Effect | None) -> dict[str, Any]:
    """The result for the model of a call that was open at that event."""
    if begun is None:
        return CallReport("not started", "the session was rewound to before it started.").body(call)
    text = f"it was in progress at the event that the session was rewound to; in {session.id} it is {begun.state} now."
    return CallReport("unknown", f"{text} The files here are as they were before it. Check before you repeat it.").body(
        call
    )


def _note(session: SessionRecord, number: int, outside: list[OutsideEffect], not_kept: list[str]) -> dict[str, Any]:
    text = [f"The user rewound the work to event {number} of {session.id}: the files are as they were at that event."]
    if not_kept:
        text.append(f"These files are not in the snapshot, and may be missing or differ: {', '.join(not_kept)}.")
    if outside:
        named = [f"{one.tool}({encode(one.arguments)[:SHORT]})" for one in outside[:LISTED]]
        more = [f"and {len(outside) - LISTED} more"] if len(outside) > LISTED else []
        text.append(f"Done outside since then, and not undone: {'; '.join([*named, *more])}.")
    return {"role": "note", "about": "rewound", "content": " ".join(text)}
