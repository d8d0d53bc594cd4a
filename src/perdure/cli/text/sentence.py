"""Events as sentences, one line each. The whole body of an event is shown by `--json`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from perdure.cli.text.plain import call, error, safe, short, value
from perdure.clock import format_time
from perdure.domain.event import Event
from perdure.domain.step import AGAIN
from perdure.domain.text import content_text
from perdure.ids import decode
from perdure.store.move import StoreTransaction
from perdure.store.moves import effect

Body = Mapping[str, Any]


def line(event: Event, tools: Mapping[str, str]) -> str:
    """An event with its number and its time. `tools` has the tool of each effect."""
    return f"{event.number:>6}  {format_time(event.at)}  {sentence(event, tools)}"


def tools_of(tx: StoreTransaction, uid: str, events: list[Event]) -> dict[str, str]:
    """The tools of the effects in these events, by effect id."""
    ids = {event.effect_id for event in events if event.effect_id is not None}
    found = [effect.get_or_none(tx, uid, id) for id in sorted(ids)]
    return {one.id: one.tool for one in found if one is not None}


def sentence(event: Event, tools: Mapping[str, str]) -> str:
    """What happened."""
    if event.body is None:
        return f"{event.kind}: its content was erased"
    if not isinstance(event.body, Mapping):
        return f"{event.kind}: {value(event.body)}"
    by = safe(event.actor)
    try:
        if event.kind.startswith("effect."):
            return _effect(event, event.body, tools, by)
        if (describe := SENTENCES.get(event.kind)) is not None:
            return describe(event.body, by)
    except (KeyError, IndexError, TypeError, AttributeError):  # a body of another version is shown as JSON
        pass
    return f"{event.kind} by {by}: {value(event.body)}"


def _row(body: Body, table: str) -> Mapping[str, Any]:
    rows = body["rows"][table]
    found: Mapping[str, Any] = rows if isinstance(rows, Mapping) else rows[0]
    return found


def _effect(event: Event, body: Body, tools: Mapping[str, str], by: str) -> str:
    row = _row(body, "effect") if body.get("rows") else {}
    id = event.effect_id or "?"
    name = f"{safe(row.get('tool') or tools.get(id) or 'an effect')} {safe(id)}"
    attempt = f"attempt {body['attempt']}" if body.get("attempt") else ""
    because = body.get("because") or body.get("why")
    text = {
        "effect.planned": f"{name} is planned: {call(str(row.get('tool')), row.get('intent'))}",
        "effect.dispatched": f"{name} is dispatched, {attempt}",
        "effect.acknowledged": f"{name} happened: {_result(row.get('result'))}",
        "effect.failed": f"{name} did not happen: {error(row.get('error'))}",
        "effect.unknown": f"{name}: {attempt} {_unknown(body)}: {error(body.get('error'))}",
        "effect.absent": f"{name} was not found outside; it is planned again",
        "effect.refused": f"{name} was refused: {error(row.get('error'))}",
        "effect.compensated": f"{name} was undone",
        "effect.superseded": f"{name} is superseded by a new effect",
        "effect.doubted": f"{name} is in doubt",
        "effect.settled": f"{by} settled {name}: {body.get('verdict')}",
        "effect.ended": f"{name}: {attempt} has ended",
        "effect.late_outcome": f"{name}: {attempt} reported {body.get('outcome')} too late; it is not used",
        "effect.recovered": f"{name}: recovery decided",
        "effect.presumed": f"{name}: the store was restored, so {attempt} may have happened before",
        "effect.undo_requested": f"{by} requested to undo {name}",
        "effect.undo_failed": f"{name} could not be undone",
    }.get(event.kind)
    if text is None:
        return f"{event.kind} {name}: {value(body)}"
    return f"{text}. {short(str(because))}" if because else text


def _result(stored: Any) -> str:
    """A result in short. Of a command that failed, how it ended and the end of its output."""
    try:
        result = decode(stored) if isinstance(stored, str) else stored
    except msgspec.DecodeError:
        return value(stored)
    if not isinstance(result, Mapping) or not result.get("failed") or not isinstance(result.get("text"), str):
        return value(stored)
    lines = [line.strip() for line in result["text"].splitlines() if line.strip()]
    return short(lines[0]) + (f" … {short(lines[-1])}" if len(lines) > 1 else "") if lines else value(stored)


def _unknown(body: Body) -> str:
    if body.get("under_way"):
        return "is overdue and still in progress"
    return (
        "ended, and its outcome is unknown" if body.get("over", True) else "was stopped, and may still have an effect"
    )


def _created(body: Body, by: str) -> str:
    row = _row(body, "session")
    origin = f", a branch at event {row['forked_at']}" if row.get("forked_from") else ""
    return f"{by} created it{origin}: {call(row['program'], row['arguments'])}"


def _finished(body: Body, _: str) -> str:
    row = _row(body, "session")
    return f"it is {row['status']}: {value(row['result']) if row['status'] == 'done' else error(row['error'])}"


def _taken(body: Body, by: str) -> str:
    before = f" from {safe(body['from'])}" if body.get("from") else ""
    return f"{by} took it over{before}: {short(str(body.get('because')))}"


def _opened(body: Body, _: str) -> str:
    row = _row(body, "wait")
    detail = row["detail"] if isinstance(row["detail"], Mapping) else {}
    about = detail.get("question") or detail.get("why") or row["ref"]
    due = f", until {format_time(row['due_at'])}" if row["due_at"] else ""
    return f"it starts to wait for {row['kind']} {safe(row['id'])}{due}" + (f": {short(str(about))}" if about else "")


def _resolved(body: Body, by: str) -> str:
    row = _row(body, "wait")
    answer = "" if row["answer"] is None else f": {value(row['answer'])}"
    return f"{by} resolved {body['kind']} {safe(row['id'])}{answer}"


def _message(body: Body, by: str) -> str:
    content = body.get("content")
    shown = content_text(content)
    text = f"{safe(str(body.get('role') or by))}: {value(shown if shown is not None else content)}"
    not_kept = body.get("not_kept")
    return f"{text} (not in the snapshot: {short(', '.join(map(str, not_kept)))})" if not_kept else text


def _noted(body: Body, by: str) -> str:
    if "approval" in body:
        row = _row(body, "approval")
        return f"the gate {safe(row['gate'])} requires approval {safe(row['id'])}"
    return f"note by {by}: {value({key: one for key, one in body.items() if key != 'rows'})}"


def _changed(body: Body, _: str) -> str:
    row = dict(_row(body, "task"))
    id, _at = row.pop("id"), row.pop("updated_at", None)
    return f"task {safe(id)}: " + ", ".join(f"{key} {value(one)}" for key, one in row.items())


def _fact(verb: str) -> Callable[[Body, str], str]:
    def describe(body: Body, by: str) -> str:
        row = _row(body, "fact")
        held = f" = {value(row['value'])}" if "value" in row else ""
        return f"{by} {verb} {safe(row['scope'])}/{safe(row['key'])}{held}"

    return describe


def _step(body: Body, _: str) -> str:
    name = str(body["step"]["name"])
    number, _, own = name.removeprefix(AGAIN).partition(":") if name.startswith(AGAIN) else ("", "", name)
    return f"step {safe(own)} is recorded{f', retry {safe(number)}' if number else ''}"


def _retried(body: Body, by: str) -> str:
    if "of" not in body:
        return f"{by} started it again after its failure"
    number = _row(body, "session")["retries"]
    return f"it failed and is retried, {number} of {safe(str(body['of']))}: {short(error(body.get('error')))}"


def _described(body: Body, by: str) -> str:
    row = _row(body, "session")
    if "arguments" in row:
        return f"{by} requested it again: the arguments are {value(row['arguments'])}"
    if "archived_at" in row:
        return f"{by} {'archived it' if row['archived_at'] else 'showed it in the list again'}"
    return f"{by} chose the model {safe(row['model'])}" if "model" in row else f"{by} changed {value(row)}"


SENTENCES: dict[str, Callable[[Body, str], str]] = {
    "session.created": _created,
    "session.described": _described,
    "session.parked": lambda body, _: f"it waits for {short(', '.join(body['waits']))}",
    "session.released": lambda _body, by: f"{by} released it; it is ready",
    "session.finished": _finished,
    "session.restarted": lambda body, _: (
        f"the program was restarted, restart {body['rows']['session']['restart_number']}"
    ),
    "session.removed": lambda body, by: f"{by} removed its content: {short(body['because'])}",
    "session.retried": _retried,
    "session.sealed": lambda _body, by: f"{by} sealed it; it continues elsewhere",
    "lease.acquired": lambda _body, by: f"{by} acquired the lease",
    "lease.taken_over": _taken,
    "lease.kept": lambda _body, by: f"another server took over, and {by} continues",
    "lease.expired": lambda body, _: f"its holder {safe(str(body.get('from')))} stopped renewing the lease",
    "cancel.requested": lambda body, by: (
        "its deadline has passed, so it is cancelled" if body.get("because") else f"{by} requested to cancel it"
    ),
    "interrupt.requested": lambda body, by: (
        "the request to interrupt it was removed: nothing was under way"
        if body.get("over")
        else f"{by} requested to interrupt it"
    ),
    "pause.requested": lambda body, by: f"{by} ended the pause" if body.get("over") else f"{by} requested a pause",
    "message": _message,
    "note": _noted,
    "event.erased": lambda body, by: f"{by} erased events {value(body['numbers'])}: {short(str(body['because']))}",
    "wait.opened": _opened,
    "wait.resolved": _resolved,
    "inbox.received": lambda body, by: f"{by} sent message {safe(body['id'])}: {value(body['message'])}",
    "artifact.saved": lambda body, by: (
        f"{by} saved {body['size']} bytes of {safe(body['kind'])}: {safe(body['digest'])}"
    ),
    "step.recorded": _step,
    "task.added": lambda body, _: f"task {safe(_row(body, 'task')['id'])}: {short(_row(body, 'task')['title'])}",
    "task.changed": _changed,
    "decision.made": lambda body, _: (
        f"decided: {short(_row(body, 'decision')['decision'])}, because {short(_row(body, 'decision')['rationale'])}"
    ),
    "decision.settled": lambda body, _: f"outcome of a decision: {short(_row(body, 'decision')['outcome'])}",
    "fact.remembered": _fact("remembers"),
    "fact.verified": _fact("verified"),
    "fact.forgotten": _fact("forgot"),
    "approval.voted": lambda body, by: (
        f"{by} voted {safe(body['decision'])} on {safe(body['approval'])}"
        + (f": {short(body['because'])}" if body["because"] else "")
    ),
    "approval.decided": lambda body, _: (
        f"approval {safe(body['approval'])} is {safe(_row(body, 'approval')['decision'])}"
    ),
    "approval.withdrawn": lambda body, by: f"{by} withdrew approval {safe(body['approval'])}: {short(body['because'])}",
    "approval.escalated": lambda body, _: (
        f"approval {safe(body['approval'])} waited for long, so {safe(', '.join(body['to']))} may decide too"
    ),
    "exemption.granted": lambda body, by: (
        f"{by} granted exemption {safe(body['id'])} from the rule {safe(body['rule'])}: {short(body['because'])}"
    ),
}
