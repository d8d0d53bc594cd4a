"""The transcript, and what an agent knows because of it.

An agent's state is a fold over the events of kind `message` and over nothing else, so it can be rebuilt at any event,
in any process and in any branch. A checkpoint is the same state without the lines themselves: the window of lines that
a model is shown is read again from the log. Deleting it costs time.

    user       what a person, another session or another process said
    assistant  what the model said, and the calls it made
    tool       what came of one call: `of` and `index` say which; `status` is done, failed, not started or unknown
    note       what Perdure says: `about` is away, settled, performed, limit, model or rewound; after the last three it
               waits for a person
    summary    what stands for everything before `first` since a compaction
"""

from __future__ import annotations

from itertools import takewhile
from typing import Any, NamedTuple

import msgspec

from perdure.domain.event import Event
from perdure.ids import encode

CODEC = "agent-state/1"
FILES = 500  # how many files an agent remembers having read; the oldest are forgotten first
ORIGINS = 500
STOPS = ("limit", "model", "rewound")  # what a note is about after which it does not go on by itself
CHANGED = ""  # the digest of a file that is no longer as it was read: no content has it, so it must be read again


class Line(NamedTuple):
    """One line of the transcript. A branch shows lines of several sessions, so a number alone is no name."""

    uid: str
    number: int
    at: int
    role: str
    body: dict[str, Any]
    size: int  # letters of what a model is shown of it, about

    @property
    def order(self) -> dict[str, Any] | None:
        """What a person wants done by the session itself and not by its model, such as a merge."""
        if self.role != "user" or not isinstance(content := self.body.get("content"), dict):
            return None
        wanted = content.get("perform")
        return wanted if isinstance(wanted, dict) else None

    @property
    def is_aside(self) -> bool:
        """Whether it is nothing that the model must think about."""
        return self.body.get("about") in ("away", "performed") or self.order is not None


class OpenCall(NamedTuple):
    """A call that the model made and has not been told the outcome of."""

    line: Line
    nth: int
    name: str
    arguments: Any


class State(msgspec.Struct):
    """What an agent knows after a line. Everything but the lines is in the checkpoint."""

    number: int = 0  # the last line that is counted in, by its number in the session's own log
    replies: int = 0  # what the model has said so far, ever
    turns: int = 0  # … since a person last said something; the limits hold from one such message to the next
    tokens: int = 0
    cost_micros: int = 0
    worked: int = 0
    first: tuple[str, int] | None = None  # where the window begins
    summary: dict[str, Any] | None = None
    files: dict[str, str | None] = {}
    head: dict[str, str | None] | None = None
    unknown: dict[str, str] = {}  # effects of which the model was told that their outcome is still to come, and whose
    origins: list[str] = []
    model: str | None = None
    tools: list[str] = []
    snapshot: str | None = None  # of the files after the last line that changed some
    not_kept: list[str] = []  # files that were there and are not in that snapshot, each with why
    started: str | None = None  # … and when the session, or its branch, began
    stale: dict[str, list[int]] = {}  # facts of which it was told that they are too old, as they then were
    lines: list[Line] = []

    def fold(self, event: Event) -> None:
        """Count one more line in, as it is on record."""
        if isinstance(event.body, dict):
            self.add(line_of(event.session_uid, event.number, event.at, event.body))
        self.number = event.number  # erased: nobody knows any more what it said

    def add(self, line: Line) -> None:
        """Count one more line in."""
        self.number = line.number
        self.lines.append(line)
        if self.first is None:
            self.first = (line.uid, line.number)
        if line.body.get("snapshot"):
            self.snapshot, self.not_kept = line.body["snapshot"], list(line.body.get("not_kept") or ())
        self.worked += line.body.get("worked", 0)
        self.started = self.started or self.snapshot
        match line.role:
            case "user" if line.order is None:
                self.turns = self.tokens = self.cost_micros = self.worked = 0
                self._note(line.body)
            case "assistant":
                self._count(line.body)
            case "tool":
                self._learn(line.body)
            case "note":
                self._note(line.body)
            case "summary":
                self._shorten(line)

    def _count(self, body: dict[str, Any]) -> None:
        self.replies += 1
        self.turns += 1
        self._spend(body)
        self.model = body.get("model") or self.model

    def _spend(self, body: dict[str, Any]) -> None:
        used = body.get("usage") or {}
        self.tokens += used.get("tokens_in", 0) + used.get("tokens_out", 0)
        self.cost_micros += used.get("cost_micros", 0)

    def _learn(self, body: dict[str, Any]) -> None:
        self._spend(body)  # what a sub-agent used
        for path, digest in (body.get("read") or {}).items():
            self.files.pop(path, None)
            self.files[path] = digest
        while len(self.files) > FILES:
            del self.files[next(iter(self.files))]
        if body.get("head"):
            self.head = body["head"]
        for origin in (body.get("origin"), *(body.get("origins") or ())):
            if origin and origin not in self.origins:
                self._has_read(origin)
        if body.get("planner"):
            self.unknown[body["effect"]] = body["planner"]

    def _has_read(self, origin: str) -> None:
        """Where something came from is never forgotten; beyond a bound only its kind is kept."""
        kind = origin.split(":", 1)[0] + ":*"
        if len(self.origins) < ORIGINS:
            self.origins.append(origin)
        elif kind not in self.origins:
            self.origins.append(kind)

    def _note(self, body: dict[str, Any]) -> None:
        for id in body.get("settled") or ():
            self.unknown.pop(id, None)
        if body.get("planner"):
            self.unknown[body["effect"]] = body["planner"]
        for path in body.get("changed") or ():
            self.files[path] = CHANGED
        if body.get("head"):
            self.head = body["head"]
        if body.get("tools") is not None:
            self.tools = body["tools"]
        if body.get("stale") is not None:
            self.stale = body["stale"]
        self.model = body.get("model") or self.model

    def _shorten(self, line: Line) -> None:
        first = (line.body["first"][0], line.body["first"][1])
        self._spend(line.body)
        self.summary, self.first = line.body, first
        uid, number = first
        begins = (nth for nth, one in enumerate(self.lines) if one.uid == uid and one.number >= number)
        begin = next(begins, len(self.lines) - 1)
        self.lines = [one for one in self.lines[begin:] if one.role != "summary"]

    def last(self, *roles: str) -> Line | None:
        """The newest line in the window with one of these roles."""
        return next((line for line in reversed(self.lines) if line.role in roles), None)

    def said(self, uid: str) -> int:
        """The newest line of a session's own log that is no aside; 0 if the window has none."""
        found = (line.number for line in reversed(self.lines) if line.uid == uid and not line.is_aside)
        return next(found, 0)

    def open_calls(self) -> list[OpenCall]:
        """The calls of the model's last message that it has not been told about."""
        asked = self.last("assistant")
        if asked is None:
            return []
        since = takewhile(lambda line: line is not asked, reversed(self.lines))
        told = {one.body["index"] for one in since if one.role == "tool" and _answers(one, asked)}
        calls = asked.body.get("calls") or []
        return [
            OpenCall(asked, index, call["name"], call["arguments"])
            for index, call in enumerate(calls)
            if index not in told
        ]

    def open_order(self) -> Line | None:
        """The first order that has not been carried out."""
        orders = [one for one in self.lines if one.role == "user" and one.order]
        done = [one.body.get("of") for one in self.lines if one.body.get("about") == "performed"] if orders else []
        return next((one for one in orders if [one.uid, one.number] not in done), None)

    def answer(self) -> str | None:
        """What the model said to the person, if it has said it and nothing was added since that it must think about."""
        newest = next((line for line in reversed(self.lines) if not line.is_aside), None)
        if newest is None or newest.role != "assistant" or newest.body.get("calls"):
            return None
        return str(newest.body.get("content") or "")

    def stopped(self) -> dict[str, Any] | None:
        """Why it cannot go on by itself, if it said so and nobody answered."""
        said = (line for line in reversed(self.lines) if not line.is_aside and line.body.get("about") != "settled")
        newest = next(said, None)
        stopped = newest is not None and newest.role == "note" and newest.body.get("about") in STOPS
        return newest.body if newest is not None and stopped else None

    def checkpoint(self) -> str:
        return encode({name: getattr(self, name) for name in self.__struct_fields__ if name != "lines"})


def line_of(uid: str, number: int, at: int, body: dict[str, Any]) -> Line:
    """A line as it was said; which columns the move changed beside is no part of that."""
    if "rows" in body:
        body = {key: value for key, value in body.items() if key != "rows"}
    return Line(uid, number, at, str(body.get("role", "")), body, _size(body))


def words(content: Any) -> str:
    """What was said, as text: whatever a caller sends is shown as it is."""
    return content if isinstance(content, str) else "" if content is None else encode(content)


def _size(body: dict[str, Any]) -> int:
    size, calls = len(words(body.get("content"))) + 40, body.get("calls")
    return size if not calls else size + sum(len(call["name"]) + len(str(call["arguments"])) for call in calls)


def _answers(line: Line, asked: Line) -> bool:
    return list(line.body.get("of") or ()) == [asked.uid, asked.number]
