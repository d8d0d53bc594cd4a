"""How a session is shown while it moves: as objects for scripts, as a conversation, or as the sentences of its log.

Which way a session is shown to whoever asked, and the last word of a stream.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Protocol

from perdure.cli.live.follow import tools_known
from perdure.cli.live.items import Items, Said
from perdure.cli.live.screen import Screen, Teller, screen_for
from perdure.cli.live.stream import Hearing
from perdure.cli.shell import Shell, is_terminal
from perdure.cli.text.sentence import line
from perdure.domain.event import Event
from perdure.domain.session import TERMINAL
from perdure.runtime.live_text import Delta
from perdure.runtime.runtime import Runtime, SessionView
from perdure.store.move import Transaction
from perdure.store.moves import event, message
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
        for earlier in before:
            self._hearing.event(earlier)

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
    from perdure.runtime.definitions.program import PROGRAMS

    if view.program in PROGRAMS:
        return isinstance(PROGRAMS[view.program], Agent)
    first = message.between(tx, view.uid, 1, limit=1)
    return bool(first) and isinstance(first[0].body, dict) and "model" in first[0].body


BEFORE = 500  # events that are read, and not shown, to know what the next ones are about


def is_seated(shell: Shell) -> bool:
    """Whether a person sits at a keyboard and sees what is said."""
    return not shell.json and is_terminal(sys.stdin) and is_terminal(sys.stdout)


async def sight_for(
    shell: Shell, runtime: Runtime, view: SessionView, *, agent: bool, after: int
) -> tuple[Sight, Screen | None]:
    """How to show a session from an event on, and where."""
    before = await runtime.store.read(event.last, view.uid, limit=BEFORE, through=after) if after else []
    if shell.json:
        if after > 0:
            names = ("id", "uid", "program", "title", "repository", "owner", "forked_from", "forked_at", "created_at")
            session = {name: getattr(view, name) for name in names}
            shell.emit({"type": "session.started", "number": after, "session": session})
        stream = AsItems(shell.emit, after)
        stream.prime(before)
        return stream, None
    screen = screen_for()
    if not agent:
        return AsSentences(screen, runtime.store, view.uid, after), screen
    if after > 0:
        screen.line(f"… {after} earlier events; `{shell.again('attach', view.id, app=True)}` shows all", "dim")
    talk = as_conversation(screen, runtime.store.clock.now, after)
    talk.prime(before)
    return talk, screen


def ending(shell: Shell, sight: Sight, view: SessionView) -> None:
    """End a stream with where the session stands, if its events have not said so."""
    last = getattr(sight, "last", "")
    if view.status in TERMINAL and last != "session.finished":
        shell.emit({"type": "session.finished", "status": view.status, "result": view.result, "error": view.error})
    elif view.status not in TERMINAL and last != "session.waiting":
        names = ("id", "kind", "ref", "detail", "due_at")
        waits = [{name: getattr(one, name) for name in names} for one in view.waits]
        shell.emit({"type": "session.waiting", "waits": waits})
