"""Events of a session as sentences: a title, and what it says. What has no sentence is shown by its fields.

The text in it is that of programs and of other people; the page escapes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from perdure.console.text.vocabulary import wait_words
from perdure.domain.event import Event
from perdure.domain.wait import WaitKind
from perdure.ids import encode

QUIET = ("lease.", "session.released", "session.parked")  # shown small: they say who ran it, not what happened
KEPT_APART = frozenset({"rows", "identity"})  # columns that changed, and the login behind the name that is shown
TITLES = {
    "session.created": "started", "session.described": "changed", "session.parked": "waits now",
    "session.released": "given back", "session.finished": "ended", "session.restarted": "restarted",
    "session.retried": "retried", "session.sealed": "moved elsewhere", "lease.acquired": "run by",
    "lease.taken_over": "taken over by", "lease.kept": "kept by", "lease.expired": "lease expired",
    "cancel.requested": "cancel requested", "interrupt.requested": "stop requested",
    "pause.requested": "pause requested", "event.erased": "erased", "wait.opened": "waits",
    "wait.resolved": "wait ended", "inbox.received": "message received", "artifact.saved": "artifact",
    "step.recorded": "step", "task.added": "task", "task.changed": "task", "decision.made": "decided",
    "decision.settled": "outcome", "fact.remembered": "fact", "fact.verified": "fact verified",
    "fact.forgotten": "fact forgotten", "approval.voted": "vote", "approval.decided": "approval",
    "approval.escalated": "escalated", "approval.withdrawn": "approval withdrawn",
}  # fmt: skip
ENDED = {
    WaitKind.INPUT: "a message came", WaitKind.TIMER: "its time came", WaitKind.DOUBT: "a person said what happened",
    WaitKind.EFFECT: "the effect is settled", WaitKind.LEASE: "the lease is free", WaitKind.CHILD: "the child ended",
    WaitKind.PAUSED: "it was resumed", WaitKind.PROGRAM: "a worker has its code", WaitKind.SLOT: "its queue has room",
    WaitKind.QUARANTINE: "a person lets it continue", WaitKind.WORKSPACE: "a worker has its files",
    WaitKind.BUDGET: "its budget has room", WaitKind.POLICY: "there is a policy",
}  # fmt: skip

Said = dict[str, Any]
Titles = Mapping[str, str]  # of tasks, by id


def describe(one: Event, titles: Titles) -> tuple[str, str]:
    """The title of an event, and what it says."""
    title = TITLES.get(one.kind, one.kind)
    if one.body is None:
        return title, "its content was erased"
    if not isinstance(one.body, dict):
        return title, encode(one.body)
    said = {key: value for key, value in one.body.items() if key not in KEPT_APART}
    if one.kind == "pause.requested" and said.get("over"):
        return "resumed", ""
    if one.kind == "note":
        return _note(said)
    try:
        sentence = SENTENCES.get(one.kind)
        return title, _fields(said) if sentence is None else sentence(said, one.body.get("rows"), titles)
    except (KeyError, TypeError, AttributeError):  # a body of another version is shown as it is
        return title, _fields(said)


def is_quiet(one: Event) -> bool:
    """Whether an event says only who ran the session, or repeats the one beside it."""
    if one.kind != "step.recorded" or not isinstance(one.body, dict):
        return one.kind.startswith(QUIET)
    step = one.body.get("step")
    return isinstance(step, dict) and str(step.get("name")).startswith(":")  # of a call that is an event too


def _fields(said: Said) -> str:
    """The fields of a body, such as `file a.txt, size 12`."""
    return ", ".join(f"{key.replace('_', ' ')} {_value(value)}" for key, value in said.items() if value is not None)


def _value(value: Any) -> str:
    return value if isinstance(value, str) else encode(value)


def _note(said: Said) -> tuple[str, str]:
    if "workspace" in said:
        return "files", f"in {said.get('folder')} on {said.get('host')}"
    if "usage" in said and isinstance(said["usage"], list):
        return "used", f"{sum(said['usage'][:2]):,} tokens"
    return "note", _fields(said)


def _opened(_: Said, rows: Any, __: Titles) -> str:
    row = _first(rows, "wait")
    detail = row.get("detail") if isinstance(row.get("detail"), dict) else {}
    is_message = row.get("kind") == WaitKind.INPUT and row.get("ref") is None
    what = "a message" if is_message else wait_words(row.get("kind"))
    about = (detail or {}).get("question") or (detail or {}).get("why")
    return f"for {what}" + (f": {about}" if about else "")


def _resolved(said: Said, rows: Any, _: Titles) -> str:
    answer, kind = _first(rows, "wait").get("answer"), str(said.get("kind"))
    if kind == WaitKind.APPROVAL and answer is not None:
        return f"the approval is {_value(answer)}"
    if kind == WaitKind.INPUT and answer is not None and not (isinstance(answer, dict) and "message" in answer):
        return f"the answer is {_value(answer)}"
    return ENDED.get(WaitKind(kind), "") if kind in set(WaitKind) else kind


def _task(_: Said, rows: Any, titles: Titles) -> str:
    row = _first(rows, "task")
    title = row.get("title") or titles.get(str(row.get("id"))) or str(row.get("id"))
    state, note = row.get("state"), row.get("note")
    return str(title) + (f" is {state}" if state else " was changed") + (f": {note}" if note else "")


def _fact(_: Said, rows: Any, __: Titles) -> str:
    row = _first(rows, "fact")
    return f"{row.get('key')} is {_value(row['value'])}" if "value" in row else str(row.get("key"))


def _finished(_: Said, rows: Any, __: Titles) -> str:
    row = _first(rows, "session")
    error = row.get("error")
    why = error.get("message") if isinstance(error, dict) else error
    return str(row.get("status")) + (f": {why}" if why else "")


def _created(_: Said, rows: Any, __: Titles) -> str:
    row = _first(rows, "session")
    return f"as a branch at event {row.get('forked_at')}" if row.get("forked_from") else ""


def _voted(said: Said, _: Any, __: Titles) -> str:
    return f"{said['decision']}" + (f": {said['because']}" if said.get("because") else "")


def _decided(_: Said, rows: Any, __: Titles) -> str:
    row = _first(rows, "decision")
    return f"{row.get('decision')}" + (f", because {row['rationale']}" if row.get("rationale") else "")


def _nothing(_: Said, __: Any, ___: Titles) -> str:
    return ""


SENTENCES: dict[str, Callable[[Said, Any, Titles], str]] = {
    "session.created": _created,
    "session.parked": _nothing,
    "session.released": _nothing,
    "session.finished": _finished,
    "lease.acquired": _nothing,
    "lease.taken_over": lambda said, _rows, _titles: str(said.get("because") or ""),
    "pause.requested": _nothing,
    "inbox.received": lambda said, _rows, _titles: _value(said["message"]),
    "fact.remembered": _fact,
    "fact.verified": _fact,
    "fact.forgotten": _fact,
    "step.recorded": lambda said, _rows, _titles: str(said["step"]["name"]).removeprefix(":").replace("-", " "),
    "wait.opened": _opened,
    "wait.resolved": _resolved,
    "decision.made": _decided,
    "decision.settled": lambda _said, rows, _titles: _value(_first(rows, "decision").get("outcome") or ""),
    "task.added": _task,
    "task.changed": _task,
    "approval.voted": _voted,
    "approval.decided": lambda _said, rows, _titles: str(_first(rows, "approval").get("decision") or ""),
    "approval.withdrawn": lambda said, _rows, _titles: str(said.get("because") or ""),
}


def _first(rows: Any, table: str) -> dict[str, Any]:
    found = rows.get(table) if isinstance(rows, dict) else None
    row = found[0] if isinstance(found, list) and found else found
    return row if isinstance(row, dict) else {}
