"""The log of a session as a timeline: what belongs together is one entry.

    message    a line of the transcript: of a person, the model, or a note
    effect     an effect with its attempts, its approval and its result, at the first of its events on the page
    other      everything else in one line: steps, waits, decisions, leases

It reads only the events that are shown, and the effects that these name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from perdure.console.inbox_item import Whole
from perdure.console.intent import IntentView, view_of
from perdure.console.text.event_sentence import describe, is_quiet
from perdure.domain.effect import Attempt, Effect, EffectReach, EffectState
from perdure.domain.event import Event
from perdure.errors import PerdureError
from perdure.store.move import StoreTransaction
from perdure.store.moves import effect as effects
from perdure.store.moves import event, task
from perdure.store.moves.attempt import attempts_of

PAGE = 100  # events
MODEL = "model"
WORKER = re.compile(r"w-[0-9a-z]{10}@")


class TimelineEntry(msgspec.Struct, kw_only=True):
    """One entry of the timeline."""

    number: int
    at: int
    kind: str  # message, effect or other
    actor: str
    title: str = ""
    role: str = ""
    content: Any = None
    calls: list[str] = []
    effect: Effect | None = None
    intent: IntentView | None = None
    attempts: list[Attempt] = []
    moments: list[tuple[int, int, str]] = []  # number, time, what happened to the effect
    output: Any = None
    quiet: bool = False

    @property
    def is_inner(self) -> bool:
        """A call that only asked the model or wrote to the record: what it did is the entry beside it."""
        if self.effect is None or self.effect.state != EffectState.ACKNOWLEDGED:
            return False
        return self.effect.tool == MODEL or self.effect.reach in (EffectReach.NONE, EffectReach.MODEL)

    @property
    def by(self) -> str:
        """Who did it, if that says something: most events are written by the worker that runs the session."""
        return "" if WORKER.match(self.actor) and not self.title.endswith("by") else self.actor


class Timeline(msgspec.Struct, frozen=True):
    """A part of the log. `older` and `newer` are the events at which the neighbouring parts end."""

    entries: list[TimelineEntry]
    first: int
    last: int
    older: int | None
    newer: int | None


def read(tx: StoreTransaction, uid: str, cursor: int, whole: Whole, *, through: int | None = None) -> Timeline:
    """The last events of a session up to a number."""
    end = cursor if through is None else min(max(through, 1), cursor)
    lines = event.last(tx, uid, limit=PAGE, through=end)
    ids = {one.effect_id for one in lines if one.effect_id is not None}
    found = {id: effects.get_or_none(tx, uid, id) for id in sorted(ids)}
    titles = {one.id: one.title for one in task.of_session(tx, uid)} if _has_tasks(lines) else {}
    made: dict[str, TimelineEntry] = {}
    entries: list[TimelineEntry] = []
    for one in lines:
        row = found.get(one.effect_id or "")
        if row is not None and one.effect_id in made:
            _add(made[one.effect_id], one)
        elif row is not None:
            entry = made[row.id] = _effect(tx, one, row, whole)
            entries.append(entry)
        elif one.kind == "message":
            _message(one, entries, made)
        else:
            entries.append(_other(one, titles))
    first, last = (lines[0].number, lines[-1].number) if lines else (0, 0)
    return Timeline(
        entries, first, last, first - 1 if first > 1 else None, min(last + PAGE, cursor) if last < cursor else None
    )


def _has_tasks(lines: list[Event]) -> bool:
    return any(one.kind.startswith("task.") for one in lines)


def _effect(tx: StoreTransaction, one: Event, row: Effect, whole: Whole) -> TimelineEntry:
    try:
        intent = view_of(whole(row))
    except (PerdureError, OSError):
        intent = view_of(row)
    made = TimelineEntry(
        number=one.number, at=one.at, kind="effect", actor=one.actor, effect=row, intent=intent, title=row.tool,
        attempts=attempts_of(tx, row.session_uid, row.id), moments=[],
    )  # fmt: skip
    _add(made, one)
    return made


def _add(entry: TimelineEntry, one: Event) -> None:
    """One more thing that happened to an effect."""
    body: dict[str, Any] = one.body if isinstance(one.body, dict) else {}
    said = body.get("because") or body.get("why") or ""
    what = EFFECT_WORDS.get(one.kind, one.kind)
    if one.kind == "note" and "approval" in body:
        what = f"approval {body['approval']} is required"
    if one.kind == "effect.settled":
        what = f"{one.actor} settled it: {body.get('verdict')}"
    entry.moments.append((one.number, one.at, f"{what}: {said}" if said else what))


EFFECT_WORDS = {
    "effect.planned": "planned",
    "effect.dispatched": "dispatched",
    "effect.acknowledged": "happened",
    "effect.failed": "did not happen",
    "effect.unknown": "the outcome is unknown",
    "effect.absent": "not found outside",
    "effect.refused": "refused",
    "effect.compensated": "undone",
    "effect.superseded": "superseded by a new effect",
    "effect.doubted": "in doubt: a person is asked",
    "effect.ended": "the attempt has ended",
    "effect.late_outcome": "an attempt reported too late",
    "effect.recovered": "recovery decided",
    "effect.presumed": "presumed to have happened before the store was restored",
    "effect.undo_requested": "undo was requested",
    "effect.undo_failed": "the undo failed",
}


def _message(one: Event, entries: list[TimelineEntry], made: dict[str, TimelineEntry]) -> None:
    """A line of the transcript. The result of a call is added to its effect, if that is on the page."""
    body: dict[str, Any] = one.body if isinstance(one.body, dict) else {}
    role = str(body.get("role") or "erased")
    effect = made.get(str(body.get("effect")))
    if role == "tool" and effect is not None:
        effect.output = body.get("content")
        effect.moments.append((one.number, one.at, f"the model was told: {body.get('status')}"))
        return
    calls = body.get("calls")
    entries.append(
        TimelineEntry(
            number=one.number, at=one.at, kind="message", role=role, content=body.get("content"),
            actor=str(body.get("sender") or body.get("by") or ""),
            title=str(body.get("name") or body.get("about") or ""),
            calls=[str(call.get("name")) for call in calls or () if isinstance(call, dict)],
        )
    )  # fmt: skip


def _other(one: Event, titles: Mapping[str, str]) -> TimelineEntry:
    title, content = describe(one, titles)
    return TimelineEntry(
        number=one.number, at=one.at, kind="other", actor=one.actor, title=title, content=content,
        quiet=is_quiet(one),
    )  # fmt: skip
