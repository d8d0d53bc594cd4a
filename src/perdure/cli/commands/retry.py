"""`perdure retry`: run failed sessions again, in place."""

from __future__ import annotations

from typing import Any

import click

from perdure.cli.background_worker import check_background
from perdure.cli.commands.run import start_detached
from perdure.cli.live.local_run import run_locally
from perdure.cli.options.bulk_edit import bulk_options, check_bulk, edit_in_bulk
from perdure.cli.shell import Shell, by_option, command
from perdure.config import is_service
from perdure.runtime.runtime import Runtime, SessionView


@command
@click.argument("id", required=False)
@click.option("--model", metavar="NAME", help="The model that answers from now on: anthropic:NAME, openai:NAME.")
@click.option("--detach", is_flag=True, help="Run it in the background, and return immediately.")
@bulk_options
@by_option
def retry(shell: Shell, id: str | None, model: str | None, detach: bool, everything: bool, **given: Any) -> int:
    """Run a failed session again, in place.

    What is on record answers as before, and nothing settled is repeated. Only what ended the session runs again: a
    failed step, a call that is proven not to have happened, or the program's own code. An effect that was denied,
    abandoned or undone stays that way; the message then says what to do instead. A session that waits for its next
    retry is retried now.

    With --all, the failed sessions are made ready, and workers run them. It needs their programs (--app). One that
    cannot be retried is named, and the exit code is 1.
    """
    check_bulk(id, everything, given, model=model, detach=detach)
    shell.load()
    if id is None:
        return edit_in_bulk(shell, "retried", given, lambda runtime, wanted: runtime.retry_all(**wanted, by=shell.by))
    name = id
    if detach and not is_service(shell.store):
        check_background(shell)

    async def begin(runtime: Runtime) -> SessionView:
        if model is not None:
            await runtime.set_model(name, model, by=shell.by)
        return await runtime.retry(name, by=shell.by)

    return start_detached(shell, begin) if detach else run_locally(shell, begin)
