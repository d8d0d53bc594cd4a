"""What a session's model is just saying, in the last row of a terminal that shows its log."""

from __future__ import annotations

from perdure.cli.grid import columns
from perdure.cli.hearing import Hearing
from perdure.cli.items import Items, Said
from perdure.cli.live import Screen
from perdure.cli.plain import safe
from perdure.domain.event import Event
from perdure.runtime.delta import Deltas, Ear
from perdure.store.store import Store


class LastRow:
    """The end of it stands there while it is said. The log says it when it is on record, and the row is empty."""

    def __init__(self, store: Store, uid: str, screen: Screen, after: int) -> None:
        self._ear = Ear(Deltas(store), uid)
        self._screen = screen
        self._hearing = Hearing(Items())
        self._hearing.number = after
        self._said = ""

    def event(self, event: Event) -> None:
        """An event is about to be shown."""
        self._show(self._hearing.event(event))

    def look(self) -> None:
        for piece in self._ear.poll():
            self._show(self._hearing.delta(piece))

    def close(self) -> None:
        self._ear.close()
        self._screen.leave()

    def _show(self, said: list[Said]) -> None:
        for one in said:
            item = one.get("item") or {}
            if item.get("kind") == "message":
                goes_on = one["type"] == "item.updated" and not item.get("broke_off")
                self._said = (self._said + item["delta"])[-self._screen.width :] if goes_on else ""
        self._screen.refresh(end_of(self._said, self._screen.width - 1))


def end_of(text: str, room: int) -> str:
    """As much of the end of a text as fits into a row, on one line."""
    shown = safe(" ".join(text.split()))
    if columns(shown) <= room:
        return shown
    while columns(shown) > room - 1:
        shown = shown[1:]
    return "…" + shown
