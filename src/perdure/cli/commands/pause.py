"""`perdure pause`: ask a session to pause."""

from __future__ import annotations

import click

from perdure.cli.shell import Shell, by_option, command
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.plain import safe


@command
@click.argument("id")
@by_option
def pause(shell: Shell, id: str) -> None:
    """Pause a session between two steps, until `perdure resume` continues it."""
    asked = run_with_runtime(shell, lambda runtime: runtime.pause(id, by=shell.by))
    if shell.json:
        shell.echo_json(asked)
        return
    holder = f"; {safe(asked.lease_holder)} runs it and pauses after the current step" if asked.lease_holder else ""
    shell.echo(f"Pause requested for session {safe(asked.id)}{holder}.")
    shell.echo(f"Run `{shell.suggest('resume', asked.id, app=True)}` to continue it.")
