"""Text as it is spoken, put in its place among what is on record.

What a model says is heard piece by piece before it is on record, and the record is read a moment after it is written.
So a piece waits until the event that it follows has been told, and is dropped once the whole has been. When the whole
is on record, what was told already is not told again. What broke off is said to have broken off.

What a session's model is just saying, in the last row of a terminal that shows its log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from perdure.cli.live.items import ItemBuilder, JsonObject
from perdure.cli.live.screen import Screen
from perdure.cli.text.grid import columns
from perdure.cli.text.plain import safe
from perdure.domain.event import Event
from perdure.runtime.live_text import Delta, LiveText, LiveTextReader
from perdure.store.store import Store


class ItemStream:
    """Events and pieces in, objects of the vocabulary out, in the order in which a person should see them."""

    def __init__(self, items: ItemBuilder) -> None:
        self.items = items
        self.number = 0  # the last event that was told
        self._heard: deque[Delta] = deque()  # not told yet
        self._call = ""  # the one that is being told
        self._told = ""  # of it, and not on record yet
        self._replied = 0  # the event of the last reply
        self._begun = 0  # replies and parts of replies

    def delta(self, piece: Delta) -> list[JsonObject]:
        """A piece of text was heard."""
        self._heard.append(piece)
        return self._release()

    def event(self, event: Event) -> list[JsonObject]:
        """An event was read."""
        self.number = event.number
        said: list[JsonObject] = []
        for one in self.items.event(event):
            item = one.get("item") or {}
            if one["type"] == "item.completed" and item.get("kind") == "message" and item.get("role") == "assistant":
                said += self._recorded(one, str(item["text"]))
            else:
                said.append(one)
        if event.kind == "message" and isinstance(event.body, Mapping) and event.body.get("role") == "assistant":
            self._replied, self._told = event.number, ""
            self._begun += 1
        return said + self._release()

    def _release(self) -> list[JsonObject]:
        said: list[JsonObject] = []
        while self._heard and self._heard[0].after <= self.number:
            said += self._tell(self._heard.popleft())
        return said

    def _tell(self, piece: Delta) -> list[JsonObject]:
        if piece.after < self._replied:
            return []
        said = self._break_off() if piece.call != self._call else []
        self._call = piece.call
        if piece.text:
            said += [] if self._told else [self._item("item.started", text="")]
            said.append(self._item("item.updated", delta=piece.text))
            self._told += piece.text
        return said + (self._break_off() if piece.broke_off else [])

    def _break_off(self) -> list[JsonObject]:
        """What was told so far will not be on record; another attempt is another item."""
        if not self._told:
            return []
        ended = self._item("item.updated", delta="", broke_off=True)
        self._told = ""
        self._begun += 1
        return [ended]

    def _item(self, type_: str, **more: Any) -> JsonObject:
        item = {"id": f"r-{self._begun}", "kind": "message", "role": "assistant"}
        return {"type": type_, "item": item | more}

    def _recorded(self, one: JsonObject, text: str) -> list[JsonObject]:
        """A reply is on record: tell what is missing of it."""
        if not self._told:
            return [one]
        rest = text.removeprefix(self._told) if text.startswith(self._told) else ""
        missing = [self._item("item.updated", delta=rest)] if rest else []
        return [*missing, one | {"item": one["item"] | {"id": f"r-{self._begun}"}}]


class LiveTextRow:
    """The end of it stands there while it is said. The log says it when it is on record, and the row is empty."""

    def __init__(self, store: Store, uid: str, screen: Screen, after: int) -> None:
        self._ear = LiveTextReader(LiveText(store), uid)
        self._screen = screen
        self._stream = ItemStream(ItemBuilder())
        self._stream.number = after
        self._said = ""

    def event(self, event: Event) -> None:
        """An event is about to be shown."""
        self._show(self._stream.event(event))

    def look(self) -> None:
        for piece in self._ear.poll():
            self._show(self._stream.delta(piece))

    def close(self) -> None:
        self._ear.close()
        self._screen.leave()

    def _show(self, said: list[JsonObject]) -> None:
        for one in said:
            item = one.get("item") or {}
            if item.get("kind") == "message":
                goes_on = one["type"] == "item.updated" and not item.get("broke_off")
                self._said = (self._said + item["delta"])[-self._screen.width :] if goes_on else ""
        self._screen.refresh(last_part(self._said, self._screen.width - 1))


def last_part(text: str, room: int) -> str:
    """As much of the end of a text as fits into a row, on one line."""
    shown = safe(" ".join(text.split()))
    if columns(shown) <= room:
        return shown
    while columns(shown) > room - 1:
        shown = shown[1:]
    return "…" + shown
