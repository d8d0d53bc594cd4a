"""Live text, merged with what is recorded.

Live text arrives before it is recorded, and an event is read a moment after it is written. So a piece of live text
waits until the event that it follows has been shown, and is dropped once the whole message has been. When the message
is recorded, the part that was shown already is not shown again. Text that broke off is marked as such.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec

from perdure.cli.live.items import ItemBuilder, JsonObject
from perdure.domain.event import Event
from perdure.runtime.live_text.delta import Delta


class ItemStream:
    """Takes events and live text, and returns stream objects in the order in which they should be shown."""

    def __init__(self, items: ItemBuilder) -> None:
        self.items = items
        self.number = 0  # the last event that was shown
        self._pending: deque[Delta] = deque()  # live text that is not shown yet
        self._call = ""  # the model call whose text is being shown
        self._shown = ""  # text of it that is shown and not recorded yet
        self._replied = 0  # the event of the last reply
        self._replies = 0  # replies and parts of replies, to number the items

    def delta(self, piece: Delta) -> list[JsonObject]:
        """A piece of live text has arrived."""
        self._pending.append(piece)
        return self._release()

    def event(self, event: Event) -> list[JsonObject]:
        """An event was read."""
        self.number = event.number
        objects: list[JsonObject] = []
        for one in self.items.event(event):
            item = one.get("item") or {}
            if one["type"] == "item.completed" and item.get("kind") == "message" and item.get("role") == "assistant":
                objects += self._recorded(one, str(item["text"]))
            else:
                objects.append(one)
        if event.kind == "message" and isinstance(event.body, Mapping) and event.body.get("role") == "assistant":
            self._replied, self._shown = event.number, ""
            self._replies += 1
        return objects + self._release()

    def _release(self) -> list[JsonObject]:
        objects: list[JsonObject] = []
        while self._pending and self._pending[0].after <= self.number:
            objects += self._show(self._pending.popleft())
        return objects

    def _show(self, piece: Delta) -> list[JsonObject]:
        if piece.after < self._replied:
            return []
        objects = self._break_off() if piece.call != self._call else []
        self._call = piece.call
        if piece.retry is not None:
            return [*objects, {"type": "model.waiting"} | msgspec.structs.asdict(piece.retry)]
        if piece.text:
            objects += [] if self._shown else [self._item("item.started", text="")]
            objects.append(self._item("item.updated", delta=piece.text))
            self._shown += piece.text
        return objects + (self._break_off() if piece.broke_off else [])

    def _break_off(self) -> list[JsonObject]:
        """The text shown so far will not be recorded; another attempt is another item."""
        if not self._shown:
            return []
        ended = self._item("item.updated", delta="", broke_off=True)
        self._shown = ""
        self._replies += 1
        return [ended]

    def _item(self, type_: str, **more: Any) -> JsonObject:
        item = {"id": f"r-{self._replies}", "kind": "message", "role": "assistant"}
        return {"type": type_, "item": item | more}

    def _recorded(self, one: JsonObject, text: str) -> list[JsonObject]:
        """A reply is recorded: return the part that is not shown yet."""
        if not self._shown:
            return [one]
        rest = text.removeprefix(self._shown) if text.startswith(self._shown) else ""
        missing = [self._item("item.updated", delta=rest)] if rest else []
        return [*missing, one | {"item": one["item"] | {"id": f"r-{self._replies}"}}]
