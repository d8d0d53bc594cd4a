"""Following a session: each new event as it comes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import closing

from perdure.cli.shell import Shell, is_terminal
from perdure.cli.text.sentence import line
from perdure.domain.event import Event
from perdure.domain.session import TERMINAL, SessionRecord
from perdure.store.moves import effect
from perdure.store.store import Store, open_store


def follow_log(shell: Shell, found: SessionRecord) -> None:
    """Print what happens to a session after what was seen of it, until it has ended."""
    if found.status in TERMINAL:
        return

    async def go() -> None:
        with open_store(shell.store, connections=shell.connections) as store:
            if shell.json or not is_terminal(sys.stdout):
                await print_events(store, found.uid, found.cursor, say)
            else:
                await _at_terminal(store, found.uid, found.cursor)

    def say(event: Event, said: str) -> None:
        shell.echo_json(event) if shell.json else shell.echo(said)

    asyncio.run(go())


async def _at_terminal(store: Store, uid: str, after: int) -> None:
    """The same, and in the last row what is just being said."""
    from perdure.cli.live.item_stream import LiveTextRow
    from perdure.cli.live.screen import make_screen
    from perdure.runtime.live_text import POLL_INTERVAL

    screen = make_screen()
    row = LiveTextRow(store, uid, screen, after)

    def say(event: Event, said: str) -> None:
        row.event(event)
        screen.line(said)

    narrating = asyncio.ensure_future(print_events(store, uid, after, say))
    with closing(row):
        while not narrating.done():
            row.look()
            await asyncio.wait([narrating], timeout=POLL_INTERVAL)
    await narrating


async def print_events(store: Store, uid: str, after: int, say: Callable[[Event, str], None]) -> None:
    """Say each event after a number, with its sentence; return when the session has ended."""
    tools: dict[str, str] = {}
    async for event in store.follow(uid, after):
        say(event, line(event, await tool_names(store, uid, event, tools)))
        if event.kind == "session.finished":
            return


async def stop(*tasks: asyncio.Task[None]) -> None:
    """End tasks that would go on for ever. A wait may swallow one cancellation that comes as it ends, so ask again."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=0.1)


async def tool_names(store: Store, uid: str, event: Event, tools: dict[str, str]) -> dict[str, str]:
    """The tools of the effects that were met so far, with that of one more event."""
    id = event.effect_id
    if id is not None and id not in tools:
        known = await store.read(effect.get_or_none, uid, id)
        tools |= {} if known is None else {id: known.tool}
    return tools
