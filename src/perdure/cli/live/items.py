"""A session as scripts read it: its events folded into a small, stable set of JSON objects.

    session.started    turn.started    item.started    item.updated    item.completed    turn.completed
    session.waiting    session.finished    model.waiting    error

An item is a message, a tool_call, a note, an approval or a question. People are shown the same objects as text
(`item_printer`), so both see the same things. `docs/how-to/json-stream.md` describes the fields of each object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from perdure.cli.text.plain import error as error_text
from perdure.domain.event import Event
from perdure.domain.text import content_text

TYPES = (
    "session.started", "turn.started", "item.started", "item.updated", "item.completed", "turn.completed",
    "session.waiting", "session.finished", "model.waiting", "error",
)  # fmt: skip
KINDS = ("message", "tool_call", "note", "approval", "question")
ENDS = {
    "effect.failed": "failed", "effect.refused": "not started", "effect.compensated": "undone",
    "effect.superseded": "superseded",
}  # fmt: skip
STOPS = ("limit", "model", "interrupted")  # notes that end a turn
CUT = "cut"  # the reply of a model that was interrupted
MODEL = "model"  # the effect of asking a model; its answer is a message
JsonObject = dict[str, Any]
Body = Mapping[str, Any]


class ItemBuilder:
    """Folds events into objects. An event that it cannot read yields no object."""

    def __init__(self) -> None:
        self.turn = 0
        self.is_open = False  # a turn is in progress
        self._usage = {"tokens_in": 0, "tokens_out": 0, "cost_micros": 0, "model_calls": 0}
        self._calls: dict[str, JsonObject] = {}  # those that are not completed
        self._began: dict[str, int] = {}
        self._of_effect: dict[str, str] = {}
        self._asked: dict[str, JsonObject] = {}
        self._waits: dict[str, JsonObject] = {}
        self._readers: dict[str, Callable[[Event, Body], list[tuple[str, JsonObject]]]] = {
            "session.created": self._session_created,
            "session.parked": self._session_parked,
            "session.finished": self._session_finished,
            "wait.opened": self._wait_opened,
            "wait.resolved": self._wait_resolved,
            "approval.voted": self._approval_voted,
            "approval.decided": self._approval_decided,
            "lease.taken_over": self._lease_taken_over,
            "pause.requested": self._pause_requested,
            "cancel.requested": self._cancel_requested,
            "inbox.received": self._inbox_received,
        }

    def event(self, event: Event) -> list[JsonObject]:
        """The objects that one more event yields, in order."""
        if not isinstance(event.body, Mapping):  # erased
            return []
        try:
            objects = self._read(event, event.body)
        except (KeyError, IndexError, TypeError, AttributeError):  # a body of another version
            return []
        return [{"type": type_, "number": event.number, "at": event.at} | body for type_, body in objects]

    def _read(self, event: Event, body: Body) -> list[tuple[str, JsonObject]]:
        if event.kind == "message":
            return self._message(event, body)
        if event.kind.startswith("effect."):
            return self._effect(event, body)
        read = self._readers.get(event.kind)
        return [] if read is None else read(event, body)

    def _session_created(self, _: Event, body: Body) -> list[tuple[str, JsonObject]]:
        row = body["rows"]["session"]
        names = ("id", "uid", "program", "title", "repository", "owner", "forked_from", "forked_at", "created_at")
        return [("session.started", {"session": {name: row.get(name) for name in names}})]

    def _message(self, event: Event, body: Body) -> list[tuple[str, JsonObject]]:
        content = body.get("content")
        text = content if (shown := content_text(content)) is None else shown
        item: JsonObject = {"id": f"m-{event.number}", "kind": "message", "role": body.get("role"), "text": text}
        match body.get("role"):
            case "user":
                begun = [] if self.is_open else [self._begin_turn()]
                by = event.actor if "inbox" in body else None  # the first message is the prompt
                return [*begun, ("item.completed", {"item": item | {"by": by}})]
            case "assistant":
                return self._reply(event, body, item)
            case "tool":
                return self._result(event, body)
            case "note" | "summary" as role:
                about = str(body.get("about") or role)
                note = {"id": f"n-{event.number}", "kind": "note", "about": about, "text": text}
                note |= {"items": body["items"]} if body.get("items") else {}
                ended = [self._end_turn(about)] if about in STOPS and self.is_open else []
                return [("item.completed", {"item": note}), *ended]
        return []

    def _begin_turn(self) -> tuple[str, JsonObject]:
        self.turn, self.is_open = self.turn + 1, True
        self._usage = dict.fromkeys(self._usage, 0)
        return "turn.started", {"turn": self.turn}

    def _end_turn(self, stopped: str | None) -> tuple[str, JsonObject]:
        self.is_open = False
        return "turn.completed", {"turn": self.turn, "usage": self._usage, "stopped": stopped}

    def _reply(self, event: Event, body: Body, item: JsonObject) -> list[tuple[str, JsonObject]]:
        objects = [] if self.is_open else [self._begin_turn()]
        used = body.get("usage") or {}
        self._usage = {name: had + int(used.get(name) or 0) for name, had in self._usage.items()}
        self._usage["model_calls"] += 1
        if item["text"]:
            cut = {"stop": CUT} if body.get("stop") == CUT else {}
            objects.append(("item.completed", {"item": item | cut}))
        for index, call in enumerate(body.get("calls") or ()):
            id = f"c-{event.session_uid}-{event.number}-{index}"
            made = {"id": id, "kind": "tool_call", "name": call["name"], "arguments": call["arguments"]}
            objects.append(self._call(made | {"status": "called"}, event.at))
        is_over = not body.get("calls") and body.get("stop") != CUT  # a cut reply is followed by a note that ends it
        return [*objects, self._end_turn(None)] if is_over else objects

    def _call(self, item: JsonObject, at: int) -> tuple[str, JsonObject]:
        self._calls[item["id"]], self._began[item["id"]] = item, at
        return "item.started", {"item": dict(item)}

    def _result(self, event: Event, body: Body) -> list[tuple[str, JsonObject]]:
        """The result of a call, unless it was shown already when its effect was settled."""
        uid, number = body["of"]
        id = f"c-{uid}-{number}-{body['index']}"
        if id not in self._calls:
            return []
        return [self._completed(id, event, str(body["status"]), body.get("content"), body.get("effect"))]

    def _completed(self, id: str, event: Event, status: str, result: Any, effect: Any) -> tuple[str, JsonObject]:
        item = self._calls.pop(id)
        seconds = round((event.at - self._began.pop(id, event.at)) / 1_000_000, 3)
        more = {"status": status, "result": result, "effect": effect, "seconds": seconds}
        return "item.completed", {"item": item | more}

    def _effect(self, event: Event, body: Body) -> list[tuple[str, JsonObject]]:
        rows = (body.get("rows") or {}).get("effect") or [{}]
        row = rows[0] if isinstance(rows, list) else rows
        begun = self._register(event, row)
        id = self._of_effect.get(event.effect_id or "")
        if id is None or id not in self._calls:
            return begun
        if event.kind == "effect.acknowledged" and row.get("artifact") is None:
            return [*begun, self._completed(id, event, "done", result_text(row.get("result")), event.effect_id)]
        if event.kind in ENDS:
            why = None if row.get("error") is None else error_text(_decoded(row["error"]))
            return [*begun, self._completed(id, event, ENDS[event.kind], why, event.effect_id)]
        now = {"effect.planned": "planned", "effect.dispatched": "running", "effect.doubted": "unknown"}.get(event.kind)
        if now is None:
            return begun
        if now == "running":
            self._began[id] = event.at
        self._calls[id]["status"] = now
        more = {"effect": event.effect_id, "attempt": body.get("attempt"), "why": body.get("why")}
        update = {"id": id, "kind": "tool_call", "name": self._calls[id]["name"], "status": now}
        return [*begun, ("item.updated", {"item": update | {k: v for k, v in more.items() if v is not None}})]

    def _register(self, event: Event, row: Body) -> list[tuple[str, JsonObject]]:
        """Remember which call an effect belongs to; an effect of a program is a call of its own."""
        id, position = event.effect_id, row.get("position")
        if id is None or id in self._of_effect or not isinstance(position, list) or row.get("tool") == MODEL:
            return []
        if position[0] == "call":
            self._of_effect[id] = f"c-{position[1]}-{position[2]}-{position[3]}"
            return []
        self._of_effect[id] = id
        item = {"id": id, "kind": "tool_call", "name": row["tool"], "arguments": row.get("intent"), "status": "called"}
        return [self._call(item, event.at)]

    def _wait_opened(self, _: Event, body: Body) -> list[tuple[str, JsonObject]]:
        rows = body["rows"]["wait"]
        row = rows[0] if isinstance(rows, list) else rows
        detail = row["detail"] if isinstance(row["detail"], Mapping) else {}
        wait = {name: row[name] for name in ("id", "kind", "ref", "detail", "due_at")}
        self._waits[row["id"]] = wait
        if row["kind"] == "approval":
            item = {"kind": "approval", "name": detail.get("tool"), "arguments": detail.get("intent")}
            item |= {"gate": detail.get("gate"), "effect": row["ref"]}
        elif row["kind"] == "input" and detail.get("question") is not None:
            item = {"kind": "question", "text": detail["question"], "choices": detail.get("choices")}
        else:
            return []
        self._asked[row["id"]] = {"id": row["id"]} | item
        return [("item.started", {"item": self._asked[row["id"]]})]

    def _wait_resolved(self, event: Event, body: Body) -> list[tuple[str, JsonObject]]:
        rows = body["rows"]["wait"]
        row = rows[0] if isinstance(rows, list) else rows
        self._waits.pop(row["id"], None)
        item = self._asked.get(row["id"])
        if item is None or item["kind"] != "question":
            return []
        del self._asked[row["id"]]
        return [("item.completed", {"item": item | {"answer": row.get("answer"), "by": event.actor}})]

    def _approval_voted(self, event: Event, body: Body) -> list[tuple[str, JsonObject]]:
        vote = {"decision": body["decision"], "by": event.actor, "because": body["because"]}
        return [("item.updated", {"item": {"id": body["approval"], "kind": "approval"} | vote})]

    def _approval_decided(self, event: Event, body: Body) -> list[tuple[str, JsonObject]]:
        rows = body["rows"]["approval"]
        row = rows[0] if isinstance(rows, list) else rows
        item = self._asked.pop(body["approval"], {"id": body["approval"], "kind": "approval"})
        made = {"decision": row["decision"], "because": body.get("because"), "by": event.actor}
        return [("item.completed", {"item": item | made})]

    def _session_parked(self, _: Event, body: Body) -> list[tuple[str, JsonObject]]:
        return [("session.waiting", {"waits": [self._waits.get(id, {"id": id}) for id in body["waits"]]})]

    def _session_finished(self, _: Event, body: Body) -> list[tuple[str, JsonObject]]:
        row = body["rows"]["session"]
        return [("session.finished", {name: row.get(name) for name in ("status", "result", "error")})]

    def _lease_taken_over(self, event: Event, body: Body) -> list[tuple[str, JsonObject]]:
        text = f"{event.actor} took it over from {body.get('from')}: {body.get('because')}"
        return [self._note(event, "taken over", text)]

    def _pause_requested(self, event: Event, body: Body) -> list[tuple[str, JsonObject]]:
        what = "ended the pause" if body.get("over") else "requested a pause"
        return [self._note(event, "pause", f"{event.actor} {what}")]

    def _cancel_requested(self, event: Event, _: Body) -> list[tuple[str, JsonObject]]:
        return [self._note(event, "cancel", f"{event.actor} requested to cancel it")]

    def _inbox_received(self, event: Event, body: Body) -> list[tuple[str, JsonObject]]:
        if body.get("mode") != "steer" or not self.is_open:
            return []
        return [self._note(event, "steer", f"{event.actor} steers: {body['message']}")]

    def _note(self, event: Event, about: str, text: str) -> tuple[str, JsonObject]:
        return "item.completed", {"item": {"id": f"n-{event.number}", "kind": "note", "about": about, "text": text}}


def result_text(result: Any) -> Any:
    """What a tool returned: its text if it is a shipped tool, otherwise the value itself."""
    value = _decoded(result)
    return value["text"] if isinstance(value, dict) and isinstance(value.get("text"), str) else value


def _decoded(text: Any) -> Any:
    if not isinstance(text, str):
        return text

    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
