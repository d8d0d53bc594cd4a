"""Moving a session in this process until it has ended or only a person can go on, and telling how it came out."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

import click

from perdure.cli.live.event_log import print_events, stop
from perdure.cli.shell import Shell, is_terminal
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text import waits
from perdure.cli.text.plain import error, safe
from perdure.domain.session import TERMINAL, SessionRecord, Status
from perdure.domain.wait import WaitKind
from perdure.errors import LeaseHeld, PerdureError, SessionFailed, SessionWaiting
from perdure.ids import encode
from perdure.runtime.runtime import Runtime, SessionView
from perdure.store.move import StoreTransaction
from perdure.store.transfer.seal import refusal

if TYPE_CHECKING:
    from perdure.cli.live.conversation import Conversation

REST = 1.0  # seconds that a session is given to come to rest when a person leaves it
BEFORE = 20  # events of an agent's session that are shown again when it is resumed


class RunReport(NamedTuple):
    """Where a session was left."""

    session: SessionView
    asked: list[waits.WaitDescription]
    now: int
    answer: str | None = None  # what an agent said, if it waits for nothing but the next message
    left: str = ""  # how a person at a terminal left it
    told: bool = False  # what it said was shown while it said it
    said: bool = False  # there is nothing more to say


def move(shell: Shell, begin: Callable[[Runtime], Awaitable[SessionView]], *, create: bool = False) -> int:
    """Run the session that `begin` gives to where it can go, tell how it came out, and return the exit code."""

    async def work(runtime: Runtime) -> RunReport:
        view = await begin(runtime)
        await runtime.store.read(check_not_sealed, view)
        shell.note(f"session {safe(view.id)}")
        return (
            await _watched(shell, runtime, view)
            if await _is_watched(shell, runtime, view)
            else await _quietly(shell, runtime, view)
        )

    return tell(shell, run_with_runtime(shell, work, create=create))


def check_not_sealed(tx: StoreTransaction, found: SessionRecord) -> None:
    """A session that goes on elsewhere is not moved here, and is not said to be."""
    if found.sealed_at is not None and found.status not in TERMINAL:
        raise refusal(tx, found.uid, found.id, found.sealed_at)


async def _is_watched(shell: Shell, runtime: Runtime, view: SessionView) -> bool:
    from perdure.cli.live.renderers import is_agent

    if shell.json:
        return await runtime.store.read(is_agent, view)
    return is_terminal(sys.stdout)


async def _quietly(shell: Shell, runtime: Runtime, view: SessionView) -> RunReport:
    """Only how it came out is told, and its log to somebody who looks."""
    watcher = asyncio.create_task(_watch(shell, runtime, view))
    try:
        view = await runtime.complete(view.uid)
    except SessionWaiting:
        view = await runtime.get(view.uid)
    except LeaseHeld as held:
        _explain(shell, view, held)
        raise
    finally:
        await stop(watcher)
    return await report_on(runtime, view)


async def _watch(shell: Shell, runtime: Runtime, view: SessionView) -> None:
    if is_terminal(sys.stderr) and not shell.json:
        await print_events(runtime.store, view.uid, view.cursor, lambda _, said: click.echo(said, err=True))


async def _watched(shell: Shell, runtime: Runtime, view: SessionView) -> RunReport:
    """Everything is shown as it happens, and what is asked is asked here."""
    from perdure.cli.live.conversation import Conversation
    from perdure.cli.live.drivers import LocalDriver
    from perdure.cli.live.renderers import ending, is_interactive, make_renderer

    agent = shell.json or await _is_agent(runtime, view)
    after = max(0, view.cursor - BEFORE) if agent and not shell.json and view.cursor > 1 else view.cursor
    renderer, screen = await make_renderer(shell, runtime, view, agent=agent, after=0 if view.cursor <= 1 else after)
    talk = Conversation(shell, runtime, view, renderer, screen)
    talk.driver = LocalDriver(runtime, view.uid, talk.moved)
    if is_interactive(shell):
        talk.open_keyboard()
    try:
        await talk.run()
        if talk.left == "detached":
            await _detach(shell, talk)
        await talk.driver.rest(REST)
    except PerdureError as error:
        _explain(shell, view, error)
        if shell.json:
            shell.echo_json({"type": "error", "code": error.code, "message": error.message, "hint": error.hint})
        raise
    finally:
        await talk.driver.leave(3600)
    left = await runtime.get(view.uid)
    if shell.json:
        ending(shell, renderer, left)
    came = await report_on(runtime, left)
    return came._replace(left=talk.left or "", told=agent, said=talk.left == "detached")


def _explain(shell: Shell, view: SessionView, error: PerdureError) -> None:
    """Where somebody else has the session, say how to watch it, and how to go on with it."""
    if isinstance(error, LeaseHeld):
        watch, take = (shell.suggest("attach", view.id, *more, app=True) for more in ((), ("--take-over",)))
        error.hint = f"`{watch}` watches it and takes your answers; `{take}` goes on with it if its worker is dead."


async def _is_agent(runtime: Runtime, view: SessionView) -> bool:
    from perdure.cli.live.renderers import is_agent

    return await runtime.store.read(is_agent, view)


async def _detach(shell: Shell, talk: Conversation) -> None:
    """Leave at once: a worker goes on, and an act under way is recovered like that of any process that ended."""
    from perdure.cli.live.conversation import PATIENCE
    from perdure.cli.live.drivers import background, supports_background

    possible = supports_background(shell)
    if possible:
        background(shell, talk.view.uid)
    given_back = await talk.driver.leave(PATIENCE)
    id = safe(talk.view.id)
    shell.echo(f"Session {id} goes on in the background." if possible else f"Session {id} stands where it was left.")
    word = "attach" if possible else "resume"
    shell.echo(f"`{shell.suggest(word, talk.view.id, app=True)}` comes back to it.")
    if not given_back:  # waiting for the act would not be leaving; its process ends as if it had been killed
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


async def report_on(runtime: Runtime, view: SessionView) -> RunReport:
    """Where a session is, with what it waits for."""
    asked: list[waits.WaitDescription] = []
    answer: str | None = None
    if view.status not in TERMINAL:
        asked = await runtime.store.read(waits.describe_waits, view)
        answer = await runtime.store.read(_answer, view) if view.waits else None
    return RunReport(view, asked, runtime.store.clock.now(), answer)


def _answer(tx: StoreTransaction, view: SessionView) -> str | None:
    """What an agent has said to the person, if that is all there is to wait for."""
    if any(one.kind != WaitKind.INPUT or one.ref is not None for one in view.waits):
        return None
    from perdure.agent.history.state_reader import state_of

    return state_of(tx, view)[0].answer()


def tell(shell: Shell, came: RunReport) -> int:
    """Print the result, or what is waited for; raise what it failed with."""
    view = came.session
    if came.said:
        return 0
    if shell.json and not came.told:
        shell.echo_json(view)
    if view.status == Status.DONE:
        if not shell.json and not came.told:
            shell.echo(safe(view.result, keep="\n\t") if isinstance(view.result, str) else safe(encode(view.result)))
        return 0
    if view.status in (Status.FAILED, Status.CANCELLED):
        raise SessionFailed(
            f"Session {view.id} {'failed' if view.status == Status.FAILED else 'was cancelled'}: {error(view.error)}",
            hint=f"`{shell.suggest('show', view.id, '--last', '20')}` shows what led to it."
            if shell.is_store_durable
            else "",
        )
    if came.left and view.status in (Status.READY, Status.RUNNING):  # the person left while it goes on
        goes_on = view.status == Status.RUNNING
        shell.echo(f"Session {safe(view.id)} {'goes on in the background' if goes_on else 'stands where it was left'}.")
        shell.echo(f"`{shell.suggest('attach' if goes_on else 'resume', view.id, app=True)}` comes back to it.")
        return 0
    if came.answer is not None:
        if not shell.json:
            _tell_answer(shell, came, came.answer)
        return 0
    if not shell.json:
        _tell_waits(shell, came)
    return 3


def _tell_answer(shell: Shell, came: RunReport, answer: str) -> None:
    if came.told and not shell.is_store_durable:
        return
    if came.told:
        back = shell.suggest("attach", came.session.id, app=True)
        shell.note(f"Session {safe(came.session.id)} waits for your next message. `{back}` comes back to it.")
        return
    shell.echo(safe(answer, keep="\n\t"), "")
    if shell.is_store_durable:
        shell.note(f"`{shell.suggest('send', came.session.id, waits.TEXT)}` goes on with it.")


def _tell_waits(shell: Shell, came: RunReport) -> None:
    if not shell.is_store_durable:
        shell.echo(f"Session {safe(came.session.id)} waited, and ended with its store in memory:", "")
        shell.echo(*(f"  {one.wait.kind}: {one.what}" for one in came.asked))
        return
    who = "a person" if any(one.for_a_person for one in came.asked) else "something that is not here yet"
    shell.echo(f"Session {safe(came.session.id)} waits for {who}.", "")
    shell.echo(*waits.lines(shell, came.asked, came.now))
    if any(way.words[0] != "resume" for one in came.asked for way in one.ways):
        shell.echo("", f"Then `{shell.suggest('resume', came.session.id, app=True)}` lets it go on.")
