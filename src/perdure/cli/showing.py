"""Which way a session is shown to whoever asked, and the last word of a stream."""

from __future__ import annotations

import sys

from perdure.cli.command import Shell, is_terminal
from perdure.cli.live import Screen, screen_for
from perdure.cli.sight import AsItems, AsSentences, Sight, as_conversation
from perdure.domain.session import TERMINAL
from perdure.runtime.runtime import Runtime, SessionView
from perdure.store import event

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
