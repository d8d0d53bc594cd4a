"""`perdure attach`: a session that runs elsewhere, watched and answered at this terminal."""

from __future__ import annotations

import click

from perdure.cli.background_worker import BackgroundWorker
from perdure.cli.live.conversation import Conversation
from perdure.cli.live.local_run import check_not_sealed
from perdure.cli.live.run_report import RunReport, make_report, show_report
from perdure.cli.live.session_driver import BackgroundDriver
from perdure.cli.live.session_renderer import emit_last_object, is_agent, is_interactive, make_renderer
from perdure.cli.shell import RenamedOption, Shell, by_option, command
from perdure.cli.store_access import run_with_runtime
from perdure.config import is_service
from perdure.errors import LeaseHeld
from perdure.runtime.runtime import Runtime


@command
@click.argument("id")
@click.option(
    "--last",
    "--tail",
    "last",
    type=click.IntRange(0),
    metavar="N",
    cls=RenamedOption,
    help="Start with the last N events.",
)
@click.option("--take-over", is_flag=True, help="Continue the session if its worker is dead.")
@by_option
def attach(shell: Shell, id: str, last: int | None, take_over: bool) -> int:
    """Watch a session from its start and then live, answer its questions, and send it messages.

    The text of the model appears while it is generated if its worker runs on this machine as the same user, on another
    machine with PostgreSQL, or behind a service; otherwise it appears when it is recorded. Sub-agents are indented.
    Through a service, Ctrl-C leaves the session at once and Escape stops what it does; sub-agents are not shown.

    What you type while the session works steers it. If the session is ready and no process runs it, a worker in the
    background does, so closing the terminal loses nothing. Several terminals may watch one session. Exits with 3 if the
    session needs a person, and with 4 if its worker died and --take-over was not given.
    """
    if is_service(shell.store):
        from perdure.cli.remote import sessions

        return sessions.attach(shell, id, last)
    shell.load()
    report = run_with_runtime(shell, lambda runtime: _attach(shell, runtime, id, last, take_over))
    return show_report(shell, report)


async def _attach(shell: Shell, runtime: Runtime, id: str, last: int | None, take_over: bool) -> RunReport:
    view = await runtime.get(id)
    await runtime.store.read(check_not_sealed, view)
    await runtime.queries.access.note("transcript", view.uid, detail="attach")
    agent = await runtime.store.read(is_agent, view)
    after = 0 if last is None else max(0, view.cursor - last)
    renderer, screen = await make_renderer(shell, runtime, view, agent=agent, after=after)
    conversation = Conversation(shell, runtime, view, renderer, screen)
    conversation.driver = BackgroundDriver(shell, view.uid, lambda worker: _show_worker(conversation, worker))
    conversation.takes_over = take_over
    if is_interactive(shell):
        conversation.open_keyboard()
    left = await conversation.run()
    if shell.json:
        emit_last_object(shell, renderer, left)
    if conversation.end == "dead":
        again = shell.suggest("attach", view.id, "--take-over", app=True)
        raise LeaseHeld(f"The worker of session {view.id} died.", hint=f"Run `{again}` to continue the session.")
    return (await make_report(runtime, left))._replace(end=conversation.end or "", shown=True)


def _show_worker(conversation: Conversation, worker: BackgroundWorker) -> None:
    if conversation.screen is not None:
        conversation.screen.line(f"A worker continues it in the background (pid {worker.process.pid}).", "dim")
