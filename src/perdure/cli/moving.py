"""Moving a session in this process until it has ended or only a person can go on, and telling how it came out."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

import click

from perdure.cli import waiting
from perdure.cli.command import Shell
from perdure.cli.following import narrate
from perdure.cli.opening import acting
from perdure.cli.plain import error, safe
from perdure.domain.session import Status
from perdure.errors import SessionFailed, SessionWaiting
from perdure.ids import encode
from perdure.runtime.runtime import Runtime, SessionView


class Came(NamedTuple):
    """Where a session was left."""

    session: SessionView
    asked: list[waiting.Asked]
    now: int


def move(shell: Shell, begin: Callable[[Runtime], Awaitable[SessionView]], *, create: bool = False) -> int:
    """Run the session that `begin` gives to where it can go, tell how it came out, and return the exit code."""

    async def work(runtime: Runtime) -> Came:
        view = await begin(runtime)
        shell.note(f"session {safe(view.id)}")
        watcher = asyncio.create_task(_watch(shell, runtime, view))
        asked: list[waiting.Asked] = []
        try:
            view = await runtime.complete(view.uid)
        except SessionWaiting:
            view = await runtime.get(view.uid)
            asked = await runtime.store.read(waiting.asked_of, view)
        finally:
            watcher.cancel()
            with suppress(asyncio.CancelledError):
                await watcher
        return Came(view, asked, runtime.store.clock.now())

    return tell(shell, acting(shell, work, create=create))


async def _watch(shell: Shell, runtime: Runtime, view: SessionView) -> None:
    """Show what happens while it happens, to somebody who looks."""
    if sys.stderr.isatty() and not shell.json:
        await narrate(runtime.store, view.uid, view.cursor, lambda _, said: click.echo(said, err=True))


def tell(shell: Shell, came: Came) -> int:
    """Print the result, or what is waited for; raise what it failed with."""
    view = came.session
    if shell.json:
        shell.emit(view)
    if view.status == Status.DONE:
        if not shell.json:
            shell.say(safe(view.result, keep="\n\t") if isinstance(view.result, str) else safe(encode(view.result)))
        return 0
    if view.status in (Status.FAILED, Status.CANCELLED):
        raise SessionFailed(
            f"Session {view.id} {'failed' if view.status == Status.FAILED else 'was cancelled'}: {error(view.error)}",
            hint=f"`{shell.again('show', view.id, '--last', '20')}` shows what led to it.",
        )
    if not shell.json:
        who = "a person" if any(one.for_a_person for one in came.asked) else "something that is not here yet"
        shell.say(f"Session {safe(view.id)} waits for {who}.", "")
        shell.say(*waiting.lines(shell, came.asked, came.now))
        if any(way.words[0] != "resume" for one in came.asked for way in one.ways):
            shell.say("", f"Then `{shell.again('resume', view.id, app=True)}` lets it go on.")
    return 3
