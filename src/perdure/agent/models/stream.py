"""The stream of an answer: server-sent events parsed from bytes, and the part of the answer received so far.

The events are parsed here and not by the providers' packages: those fail at a byte that is not UTF-8, and read without
a limit. Here an invalid byte costs one character, and an endless answer is cut at the bound.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeVar

from perdure.agent.model import OnText, Reply, Request, ToolCall, Usage
from perdure.agent.models.text import clean, read_arguments
from perdure.agent.models.turns import wire_id
from perdure.errors import ModelError

BOUND = 4 * 1024 * 1024  # characters of text, arguments and thinking that one answer may have
LARGEST_EVENT = 4 * BOUND  # bytes
PART = 8192  # characters that each part counts in addition to its own, which limits the number of parts

T = TypeVar("T")
Stop = Literal["end", "calls", "length", "refused"]


class Events:
    """Parses events from bytes that arrive in pieces of any size. An event that does not end is an error."""

    def __init__(self, who: str) -> None:
        self._who = who
        self._line = bytearray()
        self._name = ""
        self._data: list[str] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[tuple[str, str]]:
        """The name and the data of each event that these bytes complete."""
        self._size += len(chunk)
        if self._size > LARGEST_EVENT + len(chunk):
            raise ModelError(f"{self._who} sent an event that does not end.")
        *whole, rest = chunk.split(b"\n")
        for piece in whole:
            line = (bytes(self._line) + piece).removesuffix(b"\r").decode("utf-8", "replace")
            self._line.clear()
            if line:
                self._take(line)
            else:
                name, data = self._name, "\n".join(self._data)
                self._name, self._data, self._size = "", [], 0
                if data:
                    yield name, data
        self._line += rest

    def _take(self, line: str) -> None:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            self._name = value
        elif field == "data":
            self._data.append(value)


async def read_events(response: Any, who: str, take: Callable[[str, dict[str, Any]], bool]) -> None:
    """Pass each event to `take` until it returns true, the stream ends, or the connection breaks."""
    events, chunks = Events(who), response.iter_bytes()
    try:
        while True:
            try:
                chunk = await anext(chunks, None)
            except Exception as error:  # the connection broke, for any reason
                raise cut_off(who) from error
            if chunk is None:
                return
            for name, data in events.feed(chunk):
                if data == "[DONE]" or take(name, _object(who, data)):
                    return
    finally:
        await chunks.aclose()


def cut_off(who: str) -> ModelError:
    return ModelError(f"{who} closed the connection in the middle of its answer.", hint="A retry may succeed.")


def corrupted(who: str) -> ModelError:
    return ModelError(f"{who} sent an answer that cannot be read.", hint="A retry may succeed.")


def _object(who: str, data: str) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise corrupted(who) from None
    if not isinstance(value, dict):
        raise corrupted(who)
    return value


def part(who: str, event: dict[str, Any], name: str, kind: type[T]) -> T:
    """A part that an event must have."""
    value = event.get(name)
    if not isinstance(value, kind):
        raise corrupted(who)
    return value


class Block:
    """One part of an answer: text, a call, or thinking."""

    __slots__ = ("id", "kind", "name", "pieces", "whole")

    def __init__(self, kind: Literal["text", "call", "thinking"], id: str = "", name: str = "") -> None:
        self.kind = kind
        self.id = id
        self.name = name
        self.pieces: list[str] = []
        self.whole: dict[str, Any] | None = None  # thinking, in the form that its provider expects back

    @property
    def text(self) -> str:
        return clean("".join(self.pieces))


class Answer:
    """The part of the answer received so far, up to the bound; beyond it the answer is `cut`."""

    def __init__(self, on_text: OnText) -> None:
        self._on_text = on_text
        self._held = ""
        self.blocks: dict[int, Block] = {}
        self.size = 0
        self.cut = False

    def open(self, at: int, block: Block) -> Block:
        self.blocks[at] = block
        self.charge(PART + len(block.id) + len(block.name))
        return block

    def charge(self, size: int) -> None:
        self.size += size
        self.cut = self.cut or self.size > BOUND

    def add(self, block: Block, piece: str) -> None:
        """Add one more piece; text is passed on at once."""
        room = max(0, BOUND - self.size)
        self.cut = self.cut or len(piece) > room
        if piece := piece[:room]:
            self.size += len(piece)
            block.pieces.append(piece)
            if block.kind == "text":
                self._say(piece)

    def _say(self, piece: str) -> None:
        piece = self._held + piece
        self._held = piece[-1] if "\ud800" <= piece[-1] < "\udc00" else ""  # half a character: its other half follows
        if piece := piece.removesuffix(self._held):
            self._on_text(clean(piece))

    def tokens(self, reported: int) -> int:
        """The tokens of the answer: as reported, or an estimate if it was cut before the report."""
        return max(reported, (self.size - PART * len(self.blocks)) // 4) if self.cut else reported

    def of_kind(self, kind: str) -> list[Block]:
        return [block for _, block in sorted(self.blocks.items()) if block.kind == kind]

    def reply(self, request: Request, stop: Stop, names: dict[str, str], usage: Usage, model: str) -> Reply:
        """The reply. A refused answer has no calls; the arguments of a call that was cut off stay raw text."""
        stop = "length" if self.cut else stop
        calls = [] if stop == "refused" else self._calls(request, names, whole=stop != "length")
        if stop in ("end", "calls"):
            stop = "calls" if calls else "end"
        text = "".join(block.text for block in self.of_kind("text"))
        return Reply(text, tuple(calls), usage, stop, model)

    def _calls(self, request: Request, names: dict[str, str], *, whole: bool) -> list[ToolCall]:
        calls: dict[str, ToolCall] = {}
        for index, block in enumerate(self.of_kind("call")):
            id = wire_id(block.id)
            if not id or id in calls:
                id = f"call-{request.number}-{index}"
            name = clean(names.get(block.name, block.name))[:200]
            calls[id] = ToolCall(id, name, read_arguments("".join(block.pieces), whole=whole))
        return list(calls.values())
