"""`perdure interrupt`: stop what a session does now."""

from __future__ import annotations

import click

from perdure.cli.shell import Shell, by_option, command
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.plain import safe
from perdure.control.cancellation import interrupt_session


@command
@click.argument("id")
@by_option
def interrupt(shell: Shell, id: str) -> None:
    """Stop what a session does now; then it waits for a person.

    The model's answer is cut, and what was received is kept. A command is ended with everything that it started. Calls
    that have not begun are refused, and waits between retries end. An agent then waits for the next message, a program
    is paused. A session that waits for a person already is not changed.
    """
    found = run_with_runtime(shell, lambda runtime: interrupt_session(runtime, id, by=shell.by))
    if shell.json:
        shell.echo_json(found)
    elif found.interrupt_requested_at is None:
        shell.echo(f"Session {safe(found.id)} is {safe(found.status)}.")
        shell.echo(f"Run `{shell.suggest('resume', found.id, app=True)}` to continue it.")
    elif found.lease_holder is not None:
        holder = safe(found.lease_holder)
        shell.echo(
            f"Interrupt requested for session {safe(found.id)}. {holder} runs it and has not stopped yet: a tool that "
            "runs in a thread of a worker ends by itself."
        )
    else:
        shell.echo(
            f"Interrupt requested for session {safe(found.id)}. No process runs it; it stops when it is run next."
        )
