"""`perdure retry`: run a failed session again, in place."""

from __future__ import annotations

import click

from perdure.cli.background_worker import check_background
from perdure.cli.commands.run import start_detached
from perdure.cli.live.local_run import run_locally
from perdure.cli.shell import Shell, by_option, command
from perdure.runtime.runtime import Runtime, SessionView


@command
@click.argument("id")
@click.option("--model", metavar="NAME", help="The model that answers from now on: anthropic:NAME, openai:NAME.")
@click.option("--detach", is_flag=True, help="Run it in the background, and return immediately.")
@by_option
def retry(shell: Shell, id: str, model: str | None, detach: bool) -> int:
    """Run a failed session again, in place.

    What is on record answers as before, and nothing settled is repeated. Only what ended the session runs again: a
    failed step, a call that is proven not to have happened, or the program's own code. An effect that was denied,
    abandoned or undone stays that way; the message then says what to do instead.
    """
    shell.load()
    if detach:
        check_background(shell)

    async def begin(runtime: Runtime) -> SessionView:
        if model is not None:
            await runtime.set_model(id, model, by=shell.by)
        return await runtime.retry(id, by=shell.by)

    return start_detached(shell, begin) if detach else run_locally(shell, begin)
