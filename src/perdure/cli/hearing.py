"""Text as it is spoken, put in its place among what is on record.

What a model says is heard piece by piece before it is on record, and the record is read a moment after it is written.
So a piece waits until everything that was on record when it was heard has been told. When the whole is on record, what
was told already is not told again.
"""

from __future__ import annotations

from typing import Any

from perdure.cli.items import Items, Said
from perdure.domain.event import Event


class Hearing:
    """Events and pieces in, objects of the vocabulary out, in the order in which a person should see them."""

    def __init__(self, items: Items) -> None:
        self.items = items
        self.number = 0  # the last event that was told
        self._heard = ""  # not told yet
        self._told = ""  # told, and not on record yet
        self._due: int | None = None  # the event after which a piece may be told
        self._asked = False
        self._replies = 0

    @property
    def wants_cursor(self) -> bool:
        """Whether somebody should read the session's cursor and give it to `cursor`; asked once for each reply."""
        if self._heard and self._due is None and not self._asked:
            self._asked = True
            return True
        return False

    def cursor(self, number: int) -> list[Said]:
        """Where the record was after a piece was heard."""
        self._asked, self._due = False, number
        return self._release()

    def delta(self, text: str) -> list[Said]:
        """A piece of text was heard."""
        self._heard += text
        return self._release()

    def event(self, event: Event) -> list[Said]:
        """An event was read."""
        self.number = event.number
        said: list[Said] = []
        for one in self.items.event(event):
            item = one.get("item") or {}
            if one["type"] == "item.completed" and item.get("kind") == "message" and item.get("role") == "assistant":
                said += self._recorded(one, str(item["text"]))
            else:
                said.append(one)
        if event.kind == "message" and isinstance(event.body, dict) and event.body.get("role") == "assistant":
            self._due, self._told = None, ""
            self._replies += 1
        return said + self._release()

    def _release(self) -> list[Said]:
        if self._due is None or self.number < self._due or not self._heard:
            return []
        piece, self._heard = self._heard, ""
        begun = [] if self._told else [self._item("item.started", text="")]
        self._told += piece
        return [*begun, self._item("item.updated", delta=piece)]

    def _item(self, type_: str, **more: Any) -> Said:
        item = {"id": f"r-{self._replies}", "kind": "message", "role": "assistant"}
        return {"type": type_, "item": item | more}

    def _recorded(self, one: Said, text: str) -> list[Said]:
        """A reply is on record: tell what is missing, and keep what was heard of the next one."""
        both, told = self._told + self._heard, self._told
        at = both.find(text)
        self._heard = both[at + len(text) :] if at >= 0 else ""
        if not told:
            return [one]
        item = one["item"] | {"id": f"r-{self._replies}"}
        rest = text.removeprefix(told) if text.startswith(told) else ""
        missing = [self._item("item.updated", delta=rest)] if rest else []
        return [*missing, one | {"item": item}]
