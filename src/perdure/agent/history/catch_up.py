"""Catching up on resume: what changed since the agent's last line, reported to the person and to the model.

A file that has changed since it was read must be read again before it is edited; the state enforces that.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

from perdure.agent.call_report import bounded
from perdure.agent.files.workspace import Workspace
from perdure.agent.history.inbox import InboxState
from perdure.agent.history.transcript import CHANGED, State
from perdure.agent.inference import waited_for
from perdure.agent.ledger import AgentLedger
from perdure.agent.settings import Settings
from perdure.domain.event import Event
from perdure.domain.fact import Fact, private_scope
from perdure.domain.task import TaskState
from perdure.ids import digest
from perdure.runtime.policy.call_facts import MODEL_CALL
from perdure.store.move import StoreTransaction
from perdure.store.moves import approval, decision, event, fact, inbox, task
from perdure.store.moves import effect as effects

MOST = 20  # items of one kind that are listed one by one
OUTSIDE = {
    "approval.decided": "an approval was decided",
    "effect.settled": "a person settled an effect that was in doubt",
    "effect.late_outcome": "an outcome arrived late",
    "effect.compensated": "an effect was undone",
    "task.added": "a person added a task to the plan",
    "task.changed": "a person changed a task of the plan",
    "decision.settled": "a person recorded the outcome of a decision",
    "lease.taken_over": "the worker that ran this session was lost",
    "lease.expired": "the worker that ran this session stopped renewing its lease",
}
LOST = frozenset({"lease.taken_over", "lease.expired"})
LONG = 400  # characters of a task or a decision
MARKED = frozenset({"task.added", "task.changed", "decision.settled"})  # the agent writes such events too


class RecentChanges(NamedTuple):
    """What the record held about the time since the last line when a run began."""

    events: list[Event]
    unread: int
    stale: list[Fact]
    said: int  # the number of the last line that is not an aside
    asked: int  # failed attempts to call the model since then
    waited: int  # … and how long earlier runs waited after them
    unfinished: list[str]  # after the loss of a worker: tasks that it left active, decisions without an outcome


def since_last_line(tx: StoreTransaction, uid: str, state: State, found: InboxState) -> RecentChanges:
    """What others recorded since the last line, which facts are stale, and how long the model made us wait."""
    said = state.said(uid)
    events = event.after(tx, uid, said, limit=500)
    others = [line for line in events if is_outside(line) and line.number > state.number]
    others = [line for line in others if not permits_model(tx, line)]
    facts = [*found.orders, *fact.listing(tx, private_scope(uid))]
    stale = [one for one in facts if one.is_stale(tx.now)]
    asked, waited = waited_for(events, "think")
    unfinished = unfinished_work(tx, uid) if any(line.kind in LOST for line in others) else []
    return RecentChanges(others, len(inbox.unread(tx, uid)), stale, said, asked, waited, unfinished)


def unfinished_work(tx: StoreTransaction, uid: str) -> list[str]:
    """What a lost worker may have left half done, according to the plan and the decisions."""
    active = [one for one in task.of_session(tx, uid) if one.state == TaskState.ACTIVE]
    items = [f"the task {one.id} was left active: {bounded(one.title, LONG)}" for one in active[:MOST]]
    made = decision.incomplete(tx, uid, limit=MOST)
    return items + [f"the decision {one.id} has no outcome yet: {bounded(one.decision, LONG)}" for one in made]


def is_outside(line: Event) -> bool:
    """Whether an event was recorded by another process and is worth reporting."""
    marked = isinstance(line.body, dict) and line.body.get("outside") is True
    return line.kind in OUTSIDE and (line.kind not in MARKED or marked)


def permits_model(tx: StoreTransaction, line: Event) -> bool:
    """Whether a person decided about a model call. A line about it would make it another call, and be asked about."""
    if line.kind != "approval.decided":
        return False
    decided = approval.get(tx, line.session_uid, str((line.body or {}).get("approval")))
    return effects.get(tx, line.session_uid, decided.effect_id).tool == MODEL_CALL


async def note(ledger: AgentLedger, state: State, since: RecentChanges) -> dict[str, Any] | None:
    """The note that reports what changed, or None when nothing did."""
    place, settings = ledger.workspace, ledger.settings
    changed, head = ([], None) if place is None else await asyncio.to_thread(compared, place, dict(state.files))
    items = [f"{path} {what} since it was read; read it again before relying on it" for path, what in changed[:MOST]]
    if len(changed) > MOST:
        items.append(f"{len(changed) - MOST} other files that were read have changed")
    items += moved(state.head, head) + _gone(settings, state)
    here = [describe(line) for line in since.events if _decided_here(ledger, line)]
    items += [describe(line) for line in since.events if not _decided_here(ledger, line)]
    items += since.unfinished
    if since.unread and state.answer() is None and state.stopped() is None:
        items.append(f"{since.unread} message{'s are' if since.unread > 1 else ' is'} waiting")
    stale, known = _news(state, since.stale)
    items += [f"the fact {one.key} is stale; check it before you rely on it" for one in stale]
    if not items and not here:
        return None
    said = [f"While you were away: {'; '.join(items)}."] if items else []
    return {
        "role": "note", "about": "away", "content": " ".join([*(f"{one[0].upper()}{one[1:]}." for one in here), *said]),
        "changed": [path for path, _ in changed], "items": here + items, "head": head, "tools": settings.toolbox.names,
        "model": settings.model.name, "stale": known,
    }  # fmt: skip


def _news(state: State, stale: list[Fact]) -> tuple[list[Fact], dict[str, list[int]]]:
    """The stale facts that were not reported in their present version, and the marks of all that are reported now."""
    marks = {f"{one.scope} {one.key}": [one.version, one.verified_at] for one in stale}
    told = {name: mark for name, mark in marks.items() if state.stale.get(name) == mark}
    news = [one for one in stale if f"{one.scope} {one.key}" not in told][:MOST]
    return news, told | {name: marks[name] for one in news if (name := f"{one.scope} {one.key}")}


def _decided_here(ledger: AgentLedger, line: Event) -> bool:
    """Whether it was decided at the prompt of this process, where the person was present."""
    return (
        line.kind == "approval.decided" and (line.body or {}).get("approval") in ledger.run.runtime.requests.own_votes
    )


def compared(place: Workspace, files: dict[str, str | None]) -> tuple[list[tuple[str, str]], dict[str, Any] | None]:
    """Compare the folder with the files that were read."""
    found: list[tuple[str, str]] = []
    for path, was in files.items():
        if was == CHANGED:
            continue
        now = _digest(place.root / path)
        if now != was:
            found.append((path, "is gone" if now is None else "appeared" if was is None else "changed"))
    return found, place.head()


def _digest(path: Path) -> str | None:
    """The digest of a file's content; None for anything that is not a readable file."""
    try:
        return digest(path.read_bytes()) if path.is_file() else None
    except OSError:
        return None


def moved(was: dict[str, Any] | None, now: dict[str, Any] | None) -> list[str]:
    if was is None or now is None or was == now:
        return []
    if was.get("branch") != now.get("branch"):
        return [f"the folder is on branch {now.get('branch')} and no longer on {was.get('branch')}"]
    return [f"branch {now.get('branch')} moved from {str(was.get('commit'))[:12]} to {str(now.get('commit'))[:12]}"]


def _gone(settings: Settings, state: State) -> list[str]:
    names = settings.toolbox.names
    gone = [name for name in state.tools if name not in names]
    items = [f"these tools are no longer available: {', '.join(gone)}"] if gone else []
    if state.model is not None and state.model != settings.model.name:
        items.append(f"the model is {settings.model.name} now and was {state.model}")
    return items


def describe(line: Event) -> str:
    """One event that another process recorded, of a kind in `OUTSIDE`, as text."""
    said = line.body if isinstance(line.body, dict) else {}
    what = said.get("verdict") or said.get("outcome") or ""
    about = line.effect_id
    if line.kind == "approval.decided":
        row: dict[str, Any] = next(iter(said.get("rows", {}).get("approval") or ()), {})
        about, what = said.get("approval"), f"{row.get('decision', 'decided')} by {line.actor}"
    elif line.kind in MARKED:
        table = line.kind.partition(".")[0]
        row = next(iter(said.get("rows", {}).get(table) or ()), {})
        news = row.get("title") or row.get("outcome") or row.get("state")
        about, what = row.get("id"), f"{news}, by {line.actor}"
    return f"{OUTSIDE[line.kind]}{f' ({about})' if about else ''}{f': {what}' if what else ''}"
