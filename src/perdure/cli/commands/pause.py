"""`perdure pause`: ask a session to stand still."""

from __future__ import annotations

import click

from perdure.cli.shell import Shell, command, person


@command
@click.argument("id")
@person
def pause(shell: Shell, id: str) -> None:
    """Ask a session to pause between two acts, until `perdure resume` lets it go on."""
    from perdure.cli.store_access import acting
    from perdure.cli.text.plain import safe

    asked = acting(shell, lambda runtime: runtime.pause(id, by=shell.by))
    if shell.json:
        shell.emit(asked)
        return
    has = f"; {safe(asked.lease_holder)} has it and pauses between acts" if asked.lease_holder else ""
    shell.say(f"Session {safe(asked.id)} was asked to pause{has}.")
    shell.say(f"`{shell.again('resume', asked.id, app=True)}` lets it go on.")
