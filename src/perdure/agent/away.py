"""While you were away: what changed since the agent's last line, told to the person and to the model on every resume.

What was read and has changed must be read again before it is edited; that is not a warning but a fact of the state.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from perdure.agent.ledger import AgentLedger
from perdure.agent.settings import Settings
from perdure.agent.transcript import CHANGED, State
from perdure.agent.workspace import Workspace
from perdure.domain.event import Event
from perdure.domain.fact import private_scope
from perdure.ids import digest
from perdure.store import event, fact, inbox
from perdure.store.move import Transaction

MOST = 20  # things of one kind that are named one by one
OUTSIDE = {
    "approval.decided": "an approval was decided",
    "effect.settled": "a person settled an effect that was in doubt",
    "effect.late_outcome": "an outcome came late",
    "effect.compensated": "an effect was taken back",
    "lease.taken_over": "the worker that ran this session was lost",
    "lease.expired": "the worker that ran this session fell silent",
}


async def look(ledger: AgentLedger, state: State, since: int) -> dict[str, Any] | None:
    """The note to say about what happened after event `since`, or None when nothing did."""
    run, place, settings = ledger.run, ledger.workspace, ledger.settings
    changed, head = ([], None) if place is None else await asyncio.to_thread(compared, place, dict(state.files))
    items = [f"{path} {what} since it was read; read it again before relying on it" for path, what in changed[:MOST]]
    if len(changed) > MOST:
        items.append(f"{len(changed) - MOST} other files that were read have changed")
    items += moved(state.head, head) + _gone(settings, state)
    items += await run.read(_recorded, run.session.uid, since, state.answer() is None)
    if not items:
        return None
    return {
        "role": "note", "about": "away", "content": "While you were away: " + "; ".join(items) + ".",
        "changed": [path for path, _ in changed], "items": items, "head": head, "tools": settings.toolbox.names,
        "model": settings.model.name,
    }  # fmt: skip


def compared(place: Workspace, files: dict[str, str | None]) -> tuple[list[tuple[str, str]], dict[str, Any] | None]:
    """Compare the folder with what was read of it."""
    found: list[tuple[str, str]] = []
    for path, was in files.items():
        if was == CHANGED:
            continue
        now = _digest(place.root / path)
        if now != was:
            found.append((path, "is gone" if now is None else "appeared" if was is None else "changed"))
    return found, place.head()


def _digest(path: Path) -> str | None:
    """Of a file's content; anything else that stands there now is not what was read."""
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
    items = [f"these tools are no longer here: {', '.join(gone)}"] if gone else []
    if state.model is not None and state.model != settings.model.name:
        items.append(f"the model is {settings.model.name} now and was {state.model}")
    return items


def _recorded(tx: Transaction, uid: str, after: int, working: bool) -> list[str]:
    """What others wrote since the last line, and what is no longer fresh."""
    items = [text for line in event.after(tx, uid, after, limit=500) if (text := told(line)) is not None]
    queued = len(inbox.unread(tx, uid))
    if queued and working:
        items.append(f"{queued} message{'s are' if queued > 1 else ' is'} waiting")
    for scope in ("orders", private_scope(uid)):
        stale = [one.key for one in fact.known(tx, scope) if one.is_stale(tx.now)]
        items += [f"the fact {key} is older than it may be; check it before you rely on it" for key in stale[:MOST]]
    return items


def told(line: Event) -> str | None:
    if line.kind not in OUTSIDE:
        return None
    said = line.body if isinstance(line.body, dict) else {}
    what = said.get("decision") or said.get("verdict") or said.get("outcome") or ""
    about = f" ({line.effect_id})" if line.effect_id else ""
    return f"{OUTSIDE[line.kind]}{about}{f': {what}' if what else ''}"
