"""`perdure pause`: ask a session to stand still."""

from __future__ import annotations

import click

from perdure.cli.shell import Shell, by_option, command


@command
@click.argument("id")
@by_option
def pause(shell: Shell, id: str) -> None:
    """Ask a session to pause between two acts, until `perdure resume` lets it go on."""
    from perdure.cli.store_access import run_with_runtime
    from perdure.cli.text.plain import safe

    asked = run_with_runtime(shell, lambda runtime: runtime.pause(id, by=shell.by))
    if shell.json:
        shell.echo_json(asked)
        return
    has = f"; {safe(asked.lease_holder)} has it and pauses between acts" if asked.lease_holder else ""
    shell.echo(f"Session {safe(asked.id)} was asked to pause{has}.")
    shell.echo(f"`{shell.suggest('resume', asked.id, app=True)}` lets it go on.")
