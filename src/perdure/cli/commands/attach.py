"""`perdure attach`: a session that runs elsewhere, at this terminal: seen from the start, then live, and answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perdure.cli.shell import Shell, command, person

if TYPE_CHECKING:
    from perdure.cli.live.conversation import Conversation
    from perdure.cli.live.drivers import Background
    from perdure.cli.live.local_run import Came
    from perdure.runtime.runtime import Runtime


@command
@click.argument("id")
@click.option("--tail", type=click.IntRange(0), metavar="N", help="Begin with the last N events.")
@click.option("--take-over", is_flag=True, help="Go on with it if whoever had it is dead.")
@person
def attach(shell: Shell, id: str, tail: int | None, take_over: bool) -> int:
    """Show a session from its start and then live, answer what it asks, and send it messages.

    What its model says is shown as it is said, if its worker is a process of yours on this machine, and else when it is
    on record. Sub-agents are shown further to the right.

    What is typed while it works steers it. When it is ready and nobody moves it, a worker in the background does, so
    that closing the terminal loses nothing. Several terminals may watch. Exits with 3 when only a person can go on, and
    with 4 when the session stands still because its worker died and --take-over was not given.
    """
    from perdure.cli.live.local_run import tell
    from perdure.cli.store_access import acting

    shell.load()
    return tell(shell, acting(shell, lambda runtime: _attached(shell, runtime, id, tail, take_over)))


async def _attached(shell: Shell, runtime: Runtime, id: str, tail: int | None, take_over: bool) -> Came:
    from perdure.cli.live.conversation import Conversation
    from perdure.cli.live.drivers import InBackground
    from perdure.cli.live.local_run import came_to, refuse_sealed
    from perdure.cli.live.views import ending, is_agent, is_seated, sight_for
    from perdure.errors import LeaseHeld

    view = await runtime.get(id)
    await runtime.store.read(refuse_sealed, view)
    agent = await runtime.store.read(is_agent, view)
    after = 0 if tail is None else max(0, view.cursor - tail)
    sight, screen = await sight_for(shell, runtime, view, agent=agent, after=after)
    talk = Conversation(shell, runtime, view, sight, screen)
    talk.mover = InBackground(shell, view.uid, lambda worker: _say_worker(talk, worker))
    talk.takes_over = take_over
    if is_seated(shell):
        talk.sit_down()
    left = await talk.hold()
    if shell.json:
        ending(shell, sight, left)
    if talk.left == "dead":
        again = shell.again("attach", view.id, "--take-over", app=True)
        raise LeaseHeld(f"Session {view.id} stands still: its worker died.", hint=f"`{again}` goes on with it.")
    return (await came_to(runtime, left))._replace(left=talk.left or "", told=True)


def _say_worker(talk: Conversation, worker: Background) -> None:
    if talk.screen is not None:
        talk.screen.line(f"A worker goes on with it in the background (pid {worker.process.pid}).", "dim")
