"""Run a session in this process until it ends or needs a person, and report the result."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

import click

from perdure.cli.background_worker import start_worker, supports_background
from perdure.cli.display.activity import describe_retry
from perdure.cli.live.conversation import Conversation
from perdure.cli.live.event_log import print_events, stop
from perdure.cli.live.run_report import RunReport, left_lines, make_report, show_report
from perdure.cli.live.session_driver import LocalDriver
from perdure.cli.live.session_renderer import emit_last_object, is_agent, is_interactive, make_renderer
from perdure.cli.shell import Shell, is_terminal
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.plain import safe
from perdure.cli.workers.serving_worker import find_serving_worker
from perdure.config import is_service
from perdure.domain.session import TERMINAL, SessionRecord
from perdure.errors import LeaseHeld, PerdureError, SessionWaiting
from perdure.runtime.live_text.delta import Delta
from perdure.runtime.runtime import Runtime, SessionView
from perdure.store.move import StoreTransaction
from perdure.store.transfer.seal import refusal

REST = 1.0  # seconds for a session to come to rest when the person leaves it
GRACE = 2.0  # seconds for an attempt to end when the person leaves immediately
EARLIER = 20  # events of an agent's session that are shown again when it is resumed


def run_locally(
    shell: Shell,
    begin: Callable[[Runtime], Awaitable[SessionView]],
    *,
    create: bool = False,
    was_free: Callable[[], bool] = lambda: False,
) -> int:
    """Run the session that `begin` returns, print the result, and return the exit code.

    `was_free` returns whether no process held the session when this one began. If another process claims it first, that
    is not an error at a terminal: the session is watched. On a service its workers run the session.
    """
    if is_service(shell.store):
        from perdure.cli.remote.sessions import run_on_workers

        return run_on_workers(shell, begin)

    async def work(runtime: Runtime) -> RunReport:
        view = await begin(runtime)
        await runtime.store.read(check_not_sealed, view)
        shell.note(f"session {safe(view.id)}")
        agent = await runtime.store.read(is_agent, view)
        if agent if shell.json else is_terminal(sys.stdout):
            return await _run_live(shell, runtime, view, agent, watches=was_free())
        return await _run_quietly(shell, runtime, view)

    return show_report(shell, run_with_runtime(shell, work, create=create))


def check_not_sealed(tx: StoreTransaction, found: SessionRecord) -> None:
    """Refuse a session that was moved and continues elsewhere."""
    if found.sealed_at is not None and found.status not in TERMINAL:
        raise refusal(tx, found.uid, found.id, found.sealed_at)


async def _run_quietly(shell: Shell, runtime: Runtime, view: SessionView) -> RunReport:
    """Only the result is printed; the log goes to standard error if that is a terminal."""
    runtime.on_delta = RetryNotes(shell, runtime, view.uid)
    watcher = asyncio.create_task(_print_log(shell, runtime, view))
    try:
        view = await runtime.complete(view.uid)
    except SessionWaiting:
        view = await runtime.get(view.uid)
    except LeaseHeld as held:
        _add_hint(shell, view, held)
        raise
    finally:
        await stop(watcher)
    return await make_report(runtime, view)


class RetryNotes:
    """Notes on standard error that a provider makes a session wait: one for each model call."""

    def __init__(self, shell: Shell, runtime: Runtime, uid: str) -> None:
        self._shell = shell
        self._runtime = runtime
        self._uid = uid
        self._after = 0

    def __call__(self, piece: Delta) -> None:
        if piece.retry is not None and piece.session == self._uid and piece.after != self._after:
            self._after = piece.after
            self._shell.note(describe_retry(piece.retry, self._runtime.store.clock.now(), because=True))


async def _print_log(shell: Shell, runtime: Runtime, view: SessionView) -> None:
    if is_terminal(sys.stderr) and not shell.json:
        await print_events(runtime.store, view.uid, view.cursor, lambda _, line: click.echo(line, err=True))


async def _run_live(shell: Shell, runtime: Runtime, view: SessionView, agent: bool, *, watches: bool) -> RunReport:
    """Everything is shown as it happens, and questions are asked here."""
    is_new = view.cursor <= 1
    before = EARLIER if agent and not shell.json else 0
    after = 0 if is_new else max(0, view.cursor - before)
    renderer, screen = await make_renderer(shell, runtime, view, agent=agent, after=after)
    conversation = Conversation(shell, runtime, view, renderer, screen)
    conversation.watches = watches
    conversation.driver = LocalDriver(runtime, view.uid, conversation.report)
    if is_interactive(shell):
        conversation.open_keyboard()
    try:
        await conversation.run()
        if conversation.end == "detached":
            await _detach(shell, runtime, conversation)
        await conversation.driver.rest(REST)
    except PerdureError as error:
        _add_hint(shell, view, error)
        if shell.json:
            shell.echo_json({"type": "error", "code": error.code, "message": error.message, "hint": error.hint})
        raise
    finally:
        await conversation.driver.leave(3600)
    left = await runtime.get(view.uid)
    if shell.json:
        emit_last_object(shell, renderer, left)
    end = conversation.end or ""
    return (await make_report(runtime, left))._replace(end=end, shown=agent, complete=end == "detached")


def _add_hint(shell: Shell, view: SessionView, error: PerdureError) -> None:
    """If another process holds the session, explain how to watch it and how to take it over."""
    if isinstance(error, LeaseHeld):
        watch = shell.suggest("attach", view.id, app=True)
        take = shell.suggest("attach", view.id, "--take-over", app=True)
        error.hint = f"`{watch}` watches it and takes your answers; `{take}` continues it if its worker is dead."


async def _is_served(runtime: Runtime, uid: str) -> bool:
    """Whether workers of a service take the session when this process has left it."""
    with suppress(PerdureError):  # such as a store that is not available: a worker of its own waits for it
        return await find_serving_worker(runtime, await runtime.get(uid)) is not None
    return False


async def _detach(shell: Shell, runtime: Runtime, conversation: Conversation) -> None:
    """Leave immediately: a worker continues, and recovers an attempt in progress as after any process that ended."""
    continues = supports_background(shell)
    if continues and not await _is_served(runtime, conversation.session.uid):
        start_worker(shell, conversation.session.uid)
    given_back = await conversation.driver.leave(GRACE)
    shell.echo(*left_lines(shell, conversation.session.id, continues=continues))
    if not given_back:  # do not wait for the attempt; this process ends as if it had been killed
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
