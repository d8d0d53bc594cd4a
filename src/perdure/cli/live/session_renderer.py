"""Renderers: how a session is shown while it runs, as JSON objects, as a conversation, or as lines of its log."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Protocol

from perdure.agent.agent import Agent
from perdure.agent.commands.live_output import output_reader
from perdure.cli.display.activity import Activity, OutputTail
from perdure.cli.display.progress import ProgressReader
from perdure.cli.live.event_log import tool_names
from perdure.cli.live.item_printer import ItemPrinter
from perdure.cli.live.item_stream import ItemStream
from perdure.cli.live.items import ItemBuilder, JsonObject
from perdure.cli.live.screen import Screen, make_screen
from perdure.cli.shell import Shell, is_terminal
from perdure.cli.text.sentence import line
from perdure.cli.text.waits import WaitDescription
from perdure.domain.event import Event
from perdure.domain.session import TERMINAL
from perdure.runtime.definitions.program import PROGRAMS
from perdure.runtime.live_text.delta import Delta
from perdure.runtime.runtime import Runtime, SessionView
from perdure.store.move import StoreTransaction
from perdure.store.moves import event, message
from perdure.store.store import Store

ToolNames = Callable[[Event], Awaitable[dict[str, str]]]  # the tools of the effects seen so far, with one more event
CONTEXT = 500  # earlier events that are read and not shown, to know what the next ones refer to


class Renderer(Protocol):
    """Is given events and live text. `number` is the last event that was shown.

    `wait_for` is given what a waiting session waits for, other than a person.
    """

    @property
    def number(self) -> int: ...
    def wait_for(self, waits: list[WaitDescription]) -> None: ...
    async def event(self, event: Event) -> None: ...
    def delta(self, piece: Delta) -> None: ...
    def status(self, frame: int) -> str: ...


class ItemRenderer:
    """Passes stream objects to `show`: the output of `--json`, or an `ItemPrinter`."""

    def __init__(self, show: Callable[[JsonObject], None], after: int, printer: ItemPrinter | None = None) -> None:
        self._stream = ItemStream(ItemBuilder())
        self._stream.number = after
        self._show = show
        self._printer = printer
        self.last = ""  # the type of the last object

    def prime(self, before: list[Event]) -> None:
        """Read earlier events without showing them. What they began may still run."""
        for one in [one for earlier in before for one in self._stream.event(earlier)]:
            if self._printer is not None:
                self._printer.activity.show(one)

    @property
    def number(self) -> int:
        return self._stream.number

    async def event(self, event: Event) -> None:
        self._show_all(self._stream.event(event))

    def delta(self, piece: Delta) -> None:
        self._show_all(self._stream.delta(piece))

    def wait_for(self, waits: list[WaitDescription]) -> None:
        if self._printer is not None:
            self._printer.activity.waits = waits

    def status(self, frame: int) -> str:
        return "" if self._printer is None else self._printer.status(frame)

    def _show_all(self, objects: list[JsonObject]) -> None:
        for one in objects:
            self.last = one["type"]
            self._show(one)


class LogRenderer:
    """The log of a program, one line for each event."""

    def __init__(self, screen: Screen, now: Callable[[], int], tools: ToolNames, after: int) -> None:
        self.number = after
        self._screen = screen
        self._tools = tools
        self._items = ItemBuilder()
        self.activity = Activity(screen, now, idle="running")

    async def event(self, event: Event) -> None:
        self.number = event.number
        for one in self._items.event(event):
            self.activity.show(one)
        self._screen.line(line(event, await self._tools(event)))

    def delta(self, piece: Delta) -> None:
        """A program has no live text."""

    def wait_for(self, waits: list[WaitDescription]) -> None:
        self.activity.waits = waits

    def status(self, frame: int) -> str:
        return self.activity.status(frame)


def log_renderer(screen: Screen, store: Store, uid: str, after: int) -> LogRenderer:
    """The log of a program in a store."""
    known: dict[str, str] = {}
    made = LogRenderer(screen, store.clock.now, lambda event: tool_names(store, uid, event, known), after)
    made.activity.progress = ProgressReader(store, uid)
    return made


def conversation_renderer(
    screen: Screen,
    now: Callable[[], int],
    after: int,
    tail: OutputTail | None = None,
    progress: Callable[[str], str] | None = None,
) -> ItemRenderer:
    """A conversation on a screen. `tail` reads what running commands print, `progress` what a tool reports."""
    activity = Activity(screen, now, tail)
    activity.progress = progress or activity.progress
    printer = ItemPrinter(screen, activity)
    return ItemRenderer(printer.show, after, printer)


def is_agent(tx: StoreTransaction, view: SessionView) -> bool:
    """Whether a model drives the session: from its code if that is loaded, otherwise from its transcript."""
    if view.program in PROGRAMS:
        return isinstance(PROGRAMS[view.program], Agent)
    first = message.lines_between(tx, view.uid, 1, limit=1)
    return bool(first) and isinstance(first[0].body, dict) and "model" in first[0].body


def is_interactive(shell: Shell) -> bool:
    """Whether a person can type and see the output."""
    return not shell.json and is_terminal(sys.stdin) and is_terminal(sys.stdout)


async def make_renderer(
    shell: Shell, runtime: Runtime, view: SessionView, *, agent: bool, after: int
) -> tuple[Renderer, Screen | None]:
    """The renderer of a session from an event on, and the screen that it draws on."""
    before = await runtime.store.read(event.last, view.uid, limit=CONTEXT, through=after) if after else []
    if shell.json:
        if after > 0:
            names = ("id", "uid", "program", "title", "repository", "owner", "forked_from", "forked_at", "created_at")
            session = {name: getattr(view, name) for name in names}
            shell.echo_json({"type": "session.started", "number": after, "session": session})
        stream = ItemRenderer(shell.echo_json, after)
        stream.prime(before)
        return stream, None
    screen = make_screen()
    if not agent:
        return log_renderer(screen, runtime.store, view.uid, after), screen
    if after > 0:
        screen.line(f"… {after} earlier events; `{shell.suggest('attach', view.id, app=True)}` shows all", "dim")
    tail = output_reader(runtime, view.uid).tail if screen.draws else None
    conversation = conversation_renderer(
        screen, runtime.store.clock.now, after, tail, ProgressReader(runtime.store, view.uid)
    )
    conversation.prime(before)
    return conversation, screen


def emit_last_object(shell: Shell, renderer: Renderer, view: SessionView) -> None:
    """End a JSON stream with the state of the session, unless its events have shown it."""
    last = renderer.last if isinstance(renderer, ItemRenderer) else ""
    if view.status in TERMINAL and last != "session.finished":
        shell.echo_json({"type": "session.finished", "status": view.status, "result": view.result, "error": view.error})
    elif view.status not in TERMINAL and last != "session.waiting":
        names = ("id", "kind", "ref", "detail", "due_at")
        waits = [{name: getattr(one, name) for name in names} for one in view.waits]
        shell.echo_json({"type": "session.waiting", "waits": waits})
