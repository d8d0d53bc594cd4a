"""`perdure attach`: a session that runs elsewhere, at this terminal: seen from the start, then live, and answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perdure.cli.shell import Shell, by_option, command

if TYPE_CHECKING:
    from perdure.cli.live.conversation import Conversation
    from perdure.cli.live.drivers import BackgroundWorker
    from perdure.cli.live.local_run import RunReport
    from perdure.runtime.runtime import Runtime


@command
@click.argument("id")
@click.option("--tail", type=click.IntRange(0), metavar="N", help="Begin with the last N events.")
@click.option("--take-over", is_flag=True, help="Go on with it if whoever had it is dead.")
@by_option
def attach(shell: Shell, id: str, tail: int | None, take_over: bool) -> int:
    """Show a session from its start and then live, answer what it asks, and send it messages.

    What its model says is shown as it is said, if its worker is a process of yours on this machine, and else when it is
    on record. Sub-agents are shown further to the right.

    What is typed while it works steers it. When it is ready and nobody moves it, a worker in the background does, so
    that closing the terminal loses nothing. Several terminals may watch. Exits with 3 when only a person can go on, and
    with 4 when the session stands still because its worker died and --take-over was not given.
    """
    from perdure.cli.live.local_run import tell
    from perdure.cli.store_access import run_with_runtime

    shell.load()
    return tell(shell, run_with_runtime(shell, lambda runtime: _attached(shell, runtime, id, tail, take_over)))


async def _attached(shell: Shell, runtime: Runtime, id: str, tail: int | None, take_over: bool) -> RunReport:
    from perdure.cli.live.conversation import Conversation
    from perdure.cli.live.drivers import BackgroundDriver
    from perdure.cli.live.local_run import check_not_sealed, report_on
    from perdure.cli.live.renderers import ending, is_agent, is_interactive, make_renderer
    from perdure.errors import LeaseHeld

    view = await runtime.get(id)
    await runtime.store.read(check_not_sealed, view)
    agent = await runtime.store.read(is_agent, view)
    after = 0 if tail is None else max(0, view.cursor - tail)
    renderer, screen = await make_renderer(shell, runtime, view, agent=agent, after=after)
    talk = Conversation(shell, runtime, view, renderer, screen)
    talk.driver = BackgroundDriver(shell, view.uid, lambda worker: _say_worker(talk, worker))
    talk.takes_over = take_over
    if is_interactive(shell):
        talk.open_keyboard()
    left = await talk.run()
    if shell.json:
        ending(shell, renderer, left)
    if talk.left == "dead":
        again = shell.suggest("attach", view.id, "--take-over", app=True)
        raise LeaseHeld(f"Session {view.id} stands still: its worker died.", hint=f"`{again}` goes on with it.")
    return (await report_on(runtime, left))._replace(left=talk.left or "", told=True)


def _say_worker(talk: Conversation, worker: BackgroundWorker) -> None:
    if talk.screen is not None:
        talk.screen.line(f"A worker goes on with it in the background (pid {worker.process.pid}).", "dim")
