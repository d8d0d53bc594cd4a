"""How a session is shown while it moves: as objects for scripts, as a conversation, or as the sentences of its log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from perdure.cli.following import tools_known
from perdure.cli.hearing import Hearing
from perdure.cli.items import Items, Said
from perdure.cli.live import Screen, Teller
from perdure.cli.sentence import line
from perdure.domain.event import Event
from perdure.runtime.delta import Delta
from perdure.runtime.runtime import SessionView
from perdure.store import message
from perdure.store.move import Transaction
from perdure.store.store import Store


class Sight(Protocol):
    """What is given events and pieces of text. `number` is the last event that was shown."""

    @property
    def number(self) -> int: ...
    async def event(self, event: Event) -> None: ...
    def delta(self, piece: Delta) -> None: ...
    def status(self, frame: int) -> str: ...


class AsItems:
    """The objects of the vocabulary, to whoever tells them."""

    def __init__(self, tell: Callable[[Said], None], after: int, teller: Teller | None = None) -> None:
        self._hearing = Hearing(Items())
        self._hearing.number = after
        self._tell = tell
        self._teller = teller
        self.last = ""  # the type of the last object

    def prime(self, before: list[Event]) -> None:
        """Know of what came before, and tell none of it."""
        for event in before:
            self._hearing.event(event)

    @property
    def number(self) -> int:
        return self._hearing.number

    async def event(self, event: Event) -> None:
        self._all(self._hearing.event(event))

    def delta(self, piece: Delta) -> None:
        self._all(self._hearing.delta(piece))

    def status(self, frame: int) -> str:
        return "" if self._teller is None else self._teller.status(frame)

    def _all(self, said: list[Said]) -> None:
        for one in said:
            self.last = one["type"]
            self._tell(one)


class AsSentences:
    """A program's log, a line for each event."""

    def __init__(self, screen: Screen, store: Store, uid: str, after: int) -> None:
        self.number = after
        self._screen = screen
        self._store = store
        self._uid = uid
        self._tools: dict[str, str] = {}

    async def event(self, event: Event) -> None:
        self.number = event.number
        self._screen.line(line(event, await tools_known(self._store, self._uid, event, self._tools)))

    def delta(self, piece: Delta) -> None:
        """A program says nothing while it runs."""

    def status(self, frame: int) -> str:  # noqa: ARG002 - one word is enough
        return "… running"


def as_conversation(screen: Screen, now: Callable[[], int], after: int) -> AsItems:
    teller = Teller(screen, now)
    return AsItems(teller.tell, after, teller)


def is_agent(tx: Transaction, view: SessionView) -> bool:
    """Whether a model drives a session: its code says so where it is loaded, else its transcript."""
    from perdure.agent.agent import Agent
    from perdure.runtime.program import PROGRAMS

    if view.program in PROGRAMS:
        return isinstance(PROGRAMS[view.program], Agent)
    first = message.between(tx, view.uid, 1, limit=1)
    return bool(first) and isinstance(first[0].body, dict) and "model" in first[0].body
