"""The event log of a session, followed: each new event as one line, and live text in the last row of a terminal."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import closing

from perdure.cli.live.item_stream import ItemStream
from perdure.cli.live.items import ItemBuilder, JsonObject
from perdure.cli.live.screen import Screen, make_screen
from perdure.cli.shell import Shell, is_terminal
from perdure.cli.text.grid import columns
from perdure.cli.text.plain import safe
from perdure.cli.text.sentence import line
from perdure.config import is_service
from perdure.domain.event import Event
from perdure.domain.session import TERMINAL, SessionRecord
from perdure.runtime.live_text.delta import POLL_INTERVAL
from perdure.runtime.live_text.file import LiveText, LiveTextReader
from perdure.store.moves import effect
from perdure.store.store import Store, open_store


def follow_log(shell: Shell, found: SessionRecord) -> None:
    """Print the events of a session after those that were shown, until it has ended."""
    if found.status in TERMINAL:
        return
    if is_service(shell.store):
        from perdure.cli.remote.sessions import follow

        follow(shell, found)
        return

    async def main() -> None:
        with open_store(shell.store, connections=shell.connections) as store:
            if shell.json or not is_terminal(sys.stdout):
                await print_events(store, found.uid, found.cursor, show)
            else:
                await _follow_at_terminal(store, found.uid, found.cursor)

    def show(event: Event, text: str) -> None:
        shell.echo_json(event) if shell.json else shell.echo(text)

    asyncio.run(main())


async def _follow_at_terminal(store: Store, uid: str, after: int) -> None:
    """The same, with live text in the last row."""
    screen = make_screen()
    row = LiveTextRow(store, uid, screen, after)

    def show(event: Event, text: str) -> None:
        row.event(event)
        screen.line(text)

    printing = asyncio.ensure_future(print_events(store, uid, after, show))
    with closing(row):
        while not printing.done():
            row.poll()
            await asyncio.wait([printing], timeout=POLL_INTERVAL)
    await printing


async def print_events(store: Store, uid: str, after: int, show: Callable[[Event, str], None]) -> None:
    """Call `show` with each event after a number and with its sentence; return when the session has ended."""
    tools: dict[str, str] = {}
    async for event in store.follow(uid, after):
        show(event, line(event, await tool_names(store, uid, event, tools)))
        if event.kind == "session.finished":
            return


async def stop(*tasks: asyncio.Task[None]) -> None:
    """Cancel tasks that never end. A wait may swallow a cancellation that arrives as it ends, so repeat it."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=0.1)


async def tool_names(store: Store, uid: str, event: Event, tools: dict[str, str]) -> dict[str, str]:
    """The tools of the effects seen so far, with that of one more event."""
    id = event.effect_id
    if id is not None and id not in tools:
        known = await store.read(effect.get_or_none, uid, id)
        tools |= {} if known is None else {id: known.tool}
    return tools


class LiveTextRow:
    """The end of the live text in the last row. When the text is recorded, the log shows it and the row is empty."""

    def __init__(self, store: Store, uid: str, screen: Screen, after: int) -> None:
        self._reader = LiveTextReader(LiveText(store), uid)
        self._screen = screen
        self._stream = ItemStream(ItemBuilder())
        self._stream.number = after
        self._text = ""

    def event(self, event: Event) -> None:
        """An event is about to be shown."""
        self._show(self._stream.event(event))

    def poll(self) -> None:
        """Show live text that has arrived."""
        for piece in self._reader.poll():
            self._show(self._stream.delta(piece))

    def close(self) -> None:
        self._reader.close()
        self._screen.leave()

    def _show(self, objects: list[JsonObject]) -> None:
        for one in objects:
            item = one.get("item") or {}
            if item.get("kind") == "message":
                continues = one["type"] == "item.updated" and not item.get("broke_off")
                self._text = (self._text + item["delta"])[-self._screen.width :] if continues else ""
        self._screen.refresh(last_part(self._text, self._screen.width - 1))


def last_part(text: str, room: int) -> str:
    """As much of the end of a text as fits into a row, on one line."""
    shown = safe(" ".join(text.split()))
    if columns(shown) <= room:
        return shown
    while columns(shown) > room - 1:
        shown = shown[1:]
    return "…" + shown
