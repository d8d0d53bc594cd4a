"""Builds the events of a stream from recorded events and from live text.

Live text arrives before it is recorded, and an event is read a moment after it is written. So a piece of live text
waits until the event that it follows has been yielded, and is dropped once the whole message has been.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import msgspec

from perdure.domain.event import Event
from perdure.domain.text import content_text
from perdure.runtime.description import recorded_summary
from perdure.runtime.live_text.delta import Delta
from perdure.runtime.stream.events import (
    ApprovalRequested,
    DoubtOpened,
    MessageAdded,
    ModelRetry,
    QuestionOpened,
    SessionFinished,
    SessionParked,
    StreamEvent,
    TextDelta,
    TextDiscarded,
    ToolCallFinished,
    ToolCallStarted,
    ToolOutput,
)

MODEL = "model"
ENDS = {"effect.acknowledged": "done", "effect.failed": "failed", "effect.refused": "not started"}
Body = Mapping[str, Any]


class WholeValues(Protocol):
    """Gives values that are stored as artifacts."""

    def get_whole(self, value: Any) -> Any: ...


class StreamBuilder:
    """The state of one stream. An event that cannot be read yields nothing."""

    def __init__(self, session: str, values: WholeValues) -> None:
        self._session = session
        self._values = values
        self.number = 0  # the last event that was yielded
        self.finished = False
        self.running: dict[str, tuple[str, int]] = {}  # effects that are dispatched: the call and the attempt of each
        self._shown: dict[str, tuple[str, ...]] = {}  # the last output of each of them
        self._names: dict[str, str] = {}  # calls without a result
        self._of_effect: dict[str, str] = {}
        self._kinds: dict[str, str] = {}  # of waits
        self._pending: deque[Delta] = deque()
        self._reply = ""  # the reply whose text is yielded, if it is not recorded
        self._said = ""  # … and that text
        self._replied = 0  # the event of the last reply
        self._readers: dict[str, Callable[[Event, Body], Iterator[StreamEvent]]] = {
            "message": self._message,
            "wait.opened": self._wait_opened,
            "effect.doubted": self._effect_doubted,
            "session.parked": self._session_parked,
            "session.finished": self._session_finished,
        }

    def event(self, event: Event) -> list[StreamEvent]:
        """What one more recorded event yields, in order, with the live text that may follow it."""
        self.number = event.number
        found: list[StreamEvent] = []
        if isinstance(event.body, Mapping):
            try:
                found += self._read(event, event.body)
            except (KeyError, IndexError, TypeError, AttributeError):  # a body of another version
                found = []
        return found + self._release()

    def delta(self, piece: Delta) -> list[StreamEvent]:
        """What a piece of live text yields."""
        self._pending.append(piece)
        return self._release()

    def output(self, effect: str, lines: list[str]) -> list[StreamEvent]:
        """What the last lines of a running command yield; nothing if they have not changed."""
        call, shown = self.running[effect][0], tuple(lines)
        if not shown or self._shown.get(effect) == shown:
            return []
        self._shown[effect] = shown
        return [ToolOutput(self._session, call, shown)]

    def _read(self, event: Event, body: Body) -> Iterator[StreamEvent]:
        if event.kind.startswith("effect.") and event.effect_id is not None:
            yield from self._effect(event, event.effect_id, body)
        if (read := self._readers.get(event.kind)) is not None:
            yield from read(event, body)

    def _message(self, event: Event, body: Body) -> Iterator[StreamEvent]:
        role, content = body.get("role"), body.get("content")
        text = content_text(content)
        text = text if text is not None else _text(content)
        match role:
            case "user" | "note":
                yield MessageAdded(self._session, event.number, role, text)
            case "assistant":
                if self._reply and not text.startswith(self._said):
                    yield TextDiscarded(self._session, self._reply)
                self._reply, self._said, self._replied = "", "", event.number
                if text:
                    yield MessageAdded(self._session, event.number, role, text)
                for index, call in enumerate(body.get("calls") or ()):
                    yield self._start(f"c-{event.session_uid}-{event.number}-{index}", call["name"], call["arguments"])
            case "tool":
                id = f"c-{body['of'][0]}-{body['of'][1]}-{body['index']}"
                if self._names.pop(id, None) is not None:
                    effect = body.get("effect")
                    yield ToolCallFinished(self._session, id, body["name"], str(body["status"]), text, effect)

    def _start(self, id: str, name: str, arguments: Any) -> ToolCallStarted:
        self._names[id] = name
        return ToolCallStarted(self._session, id, name, arguments)

    def _effect(self, event: Event, id: str, body: Body) -> Iterator[StreamEvent]:
        """Which call an effect belongs to; the effect of a program is a call of its own."""
        row = _row(body, "effect")
        position = row.get("position")
        if id not in self._of_effect and isinstance(position, list) and row.get("tool") != MODEL:
            own = position[0] != "call"
            self._of_effect[id] = id if own else f"c-{position[1]}-{position[2]}-{position[3]}"
            if own:
                yield self._start(id, str(row["tool"]), self._values.get_whole(row.get("intent")))
        if event.kind == "effect.dispatched" and id in self._of_effect:
            self.running[id] = (self._of_effect[id], int(body.get("attempt") or 1))
        elif event.kind != "effect.planned":
            self.running.pop(id, None)
            self._shown.pop(id, None)
        if event.kind in ENDS and id in self._names:
            why = recorded_summary(_decoded(row["error"])) if row.get("error") else _text(row.get("result"))
            yield ToolCallFinished(self._session, id, self._names.pop(id), ENDS[event.kind], why, id)

    def _effect_doubted(self, event: Event, body: Body) -> Iterator[StreamEvent]:
        yield DoubtOpened(self._session, str(event.effect_id), str(body.get("why") or ""))

    def _wait_opened(self, _: Event, body: Body) -> Iterator[StreamEvent]:
        row = _row(body, "wait")
        detail = row["detail"] if isinstance(row["detail"], Mapping) else {}
        self._kinds[row["id"]] = row["kind"]
        if row["kind"] == "approval":
            tool, gate = str(detail.get("tool")), str(detail.get("gate"))
            yield ApprovalRequested(self._session, row["id"], tool, detail.get("intent"), gate, str(row["ref"]))
        elif row["kind"] == "input" and detail.get("question") is not None:
            yield QuestionOpened(self._session, row["id"], detail["question"], tuple(detail.get("choices") or ()))

    def _session_parked(self, _: Event, body: Body) -> Iterator[StreamEvent]:
        waits = tuple(body["waits"])
        yield SessionParked(self._session, waits, tuple(self._kinds.get(id, "") for id in waits))

    def _session_finished(self, _: Event, body: Body) -> Iterator[StreamEvent]:
        row, self.finished = _row(body, "session"), True
        error = recorded_summary(row["error"]) if row.get("error") else None
        yield SessionFinished(self._session, row["status"], self._values.get_whole(row.get("result")), error)

    def _release(self) -> list[StreamEvent]:
        found: list[StreamEvent] = []
        while self._pending and self._pending[0].after <= self.number:
            piece = self._pending.popleft()
            if piece.after >= self._replied:
                found += self._live(piece)
        return found

    def _live(self, piece: Delta) -> Iterator[StreamEvent]:
        if self._reply and (piece.broke_off or piece.call != self._reply):
            yield TextDiscarded(self._session, self._reply)
            self._reply = self._said = ""
        if piece.retry is not None:
            yield ModelRetry(self._session, piece.retry.due_at, piece.retry.attempt, piece.retry.why)
        if piece.text:
            self._reply, self._said = piece.call, self._said + piece.text
            yield TextDelta(self._session, piece.call, piece.text)


def _row(body: Body, table: str) -> Body:
    rows = (body.get("rows") or {}).get(table) or {}
    found: Body = rows[0] if isinstance(rows, list) else rows
    return found


def _decoded(value: Any) -> Any:
    try:
        return msgspec.json.decode(value) if isinstance(value, str) else value
    except msgspec.DecodeError:
        return value


def _text(result: Any) -> str:
    value = _decoded(result)
    return value if isinstance(value, str) else "" if value is None else msgspec.json.encode(value).decode()
