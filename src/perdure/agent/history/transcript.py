"""The transcript, and the state of an agent that follows from it.

An agent's state is a fold over the events of kind `message` and nothing else, so it can be rebuilt at any event, in any
process and in any branch. A checkpoint is the same state without the lines; the window that a model is sent is read
again from the log. Deleting a checkpoint costs only time.

    user       a message of a person, another session or another process
    assistant  a message of the model, and the calls that it made
    tool       the result of one call: `of` and `index` name it; `status` is done, failed, not started or unknown;
               `output` is the typed answer that the call delivered
    note       a message of Perdure: `about` is away, mcp, settled, performed, reminder, limit, model, rewound or
               interrupted; after the last four the agent waits for a person
    summary    replaces everything before `first` since a compaction
"""

from __future__ import annotations

from itertools import takewhile
from typing import Any, NamedTuple

import msgspec

from perdure.domain.event import Event
from perdure.domain.text import content_text
from perdure.ids import encode

CODEC = "agent-state/1"
FILES = 500  # how many files an agent remembers having read; the oldest are forgotten first
ORIGINS = 500
FILE_SIZE = 6_400  # characters that an image counts for; a provider counts it as about 1,600 tokens
RETRIED = "retried"  # about a note: the session failed, and a person started it again
STOPS = ("limit", "model", "rewound", "interrupted")  # notes after which the agent waits for a person
CHANGED = ""  # stands for the digest of a file that has changed since it was read: it must be read again


class Line(NamedTuple):
    """One line of the transcript. A branch has lines of several sessions, so `number` alone does not identify one."""

    uid: str
    number: int
    at: int
    role: str
    body: dict[str, Any]
    size: int  # about how many characters a model is sent for it

    @property
    def order(self) -> dict[str, Any] | None:
        """An operation that a person wants the session itself to carry out and not its model, such as a merge."""
        if self.role != "user" or not isinstance(content := self.body.get("content"), dict):
            return None
        wanted = content.get("perform")
        return wanted if isinstance(wanted, dict) else None

    @property
    def is_aside(self) -> bool:
        """Whether the model need not react to it."""
        return self.body.get("about") in ("away", "performed", "mcp") or self.order is not None


class OpenCall(NamedTuple):
    """A call of the model that has no recorded result yet."""

    line: Line
    nth: int
    name: str
    arguments: Any
    secret: str | None = None  # the reference of a known secret that was in the arguments


class State(msgspec.Struct):
    """An agent's state after a line. Everything but the lines is in the checkpoint."""

    number: int = 0  # the last line that is included, by its number in the session's own log
    replies: int = 0  # messages of the model so far
    turns: int = 0  # … since the last message of a person; the limits count from one such message to the next
    tokens: int = 0
    cost_micros: int = 0
    worked: int = 0
    first: tuple[str, int] | None = None  # where the window begins
    summary: dict[str, Any] | None = None
    files: dict[str, str | None] = {}
    head: dict[str, str | None] | None = None
    unknown: dict[
        str, str
    ] = {}  # effects that were reported to the model as unknown, with the session that planned each
    origins: list[str] = []
    model: str | None = None  # as it is configured; a reply names it as its provider does
    tools: list[str] = []
    snapshot: str | None = None  # of the files after the last line that changed some
    not_kept: list[str] = []  # files that are missing from that snapshot, each with the reason
    started: str | None = None  # the snapshot when the session, or its branch, began
    stale: dict[str, list[int]] = {}  # facts that were reported as stale, with their version then
    lines: list[Line] = []

    def fold(self, event: Event) -> None:
        """Include one more line, from its event."""
        if isinstance(event.body, dict):
            self.add(line_of(event.session_uid, event.number, event.at, event.body))
        self.number = event.number  # also of an event whose body was erased

    def add(self, line: Line) -> None:
        """Include one more line."""
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
                if line.body.get("about") == RETRIED:
                    self.turns = self.tokens = self.cost_micros = self.worked = 0
                self._note(line.body)
            case "summary":
                self._shorten(line)

    def _count(self, body: dict[str, Any]) -> None:
        self.replies += 1
        self.turns += 1
        self._spend(body)

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
        """Remember where content came from. Beyond a bound only the kind of its origin is kept."""
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
        """The newest line of a session's own log that is not an aside; 0 if the window has none."""
        found = (line.number for line in reversed(self.lines) if line.uid == uid and not line.is_aside)
        return next(found, 0)

    def open_calls(self) -> list[OpenCall]:
        """The calls of the model's last message that have no result yet."""
        asked = self.last("assistant")
        if asked is None:
            return []
        since = takewhile(lambda line: line is not asked, reversed(self.lines))
        answered = {one.body["index"] for one in since if one.role == "tool" and _answers(one, asked)}
        calls = asked.body.get("calls") or []
        return [
            OpenCall(asked, index, call["name"], call["arguments"], call.get("secret"))
            for index, call in enumerate(calls)
            if index not in answered
        ]

    def open_order(self) -> Line | None:
        """The first order that has not been carried out."""
        orders = [one for one in self.lines if one.role == "user" and one.order]
        done = [one.body.get("of") for one in self.lines if one.body.get("about") == "performed"] if orders else []
        return next((one for one in orders if [one.uid, one.number] not in done), None)

    def newest(self) -> Line | None:
        """The newest line to which a reaction may be due."""
        return next((line for line in reversed(self.lines) if not line.is_aside), None)

    def answer(self) -> str | None:
        """The model's answer, if it is the newest line; a typed one as JSON."""
        newest = self.newest()
        if newest is not None and "output" in newest.body:
            return encode(newest.body["output"])
        if newest is None or newest.role != "assistant" or newest.body.get("calls"):
            return None
        return str(newest.body.get("content") or "")

    def stopped(self) -> dict[str, Any] | None:
        """The note that explains why the agent waits for a person, unless a newer message answers it."""
        said = (line for line in reversed(self.lines) if not line.is_aside and line.body.get("about") != "settled")
        newest = next(said, None)
        stopped = newest is not None and newest.role == "note" and newest.body.get("about") in STOPS
        return newest.body if newest is not None and stopped else None

    def checkpoint(self) -> str:
        return encode({name: getattr(self, name) for name in self.__struct_fields__ if name != "lines"})


def line_of(uid: str, number: int, at: int, body: dict[str, Any]) -> Line:
    """A line from the body of its event, without the rows that the move changed."""
    if "rows" in body:
        body = {key: value for key, value in body.items() if key != "rows"}
    return Line(uid, number, at, str(body.get("role", "")), body, _size(body))


def words(content: Any) -> str:
    """The content of a message as text; content that is neither text nor a prompt is shown as JSON."""
    text = content_text(content)
    return text if text is not None else "" if content is None else encode(content)


def files_of(content: Any) -> list[dict[str, Any]]:
    """The images and documents of a message."""
    parts = content if isinstance(content, list) else []
    return [part for part in parts if isinstance(part, dict) and part.get("type") == "file"]


def _size(body: dict[str, Any]) -> int:
    size, calls = len(words(body.get("content"))) + 40, body.get("calls")
    size += sum(max(FILE_SIZE, int(one.get("size") or 0) // 20) for one in files_of(body.get("content")))
    return size if not calls else size + sum(len(call["name"]) + len(str(call["arguments"])) for call in calls)


def _answers(line: Line, asked: Line) -> bool:
    return list(line.body.get("of") or ()) == [asked.uid, asked.number]
