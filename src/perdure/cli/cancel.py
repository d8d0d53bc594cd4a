"""`perdure cancel`: ask a session to stop."""

from __future__ import annotations

import click

from perdure.cli.command import Shell, command, person


@command
@click.argument("id")
@person
def cancel(shell: Shell, id: str) -> None:
    """Ask a session to stop, and its children with it.

    Whoever has it honours that between two acts; what was begun is seen to its end.
    """
    from perdure.cli.opening import acting
    from perdure.cli.plain import safe

    asked = acting(shell, lambda runtime: runtime.cancel(id, by=shell.by))
    if shell.json:
        shell.emit(asked)
    elif asked.status == "cancelled":
        shell.say(f"Session {safe(asked.id)} is cancelled.")
    elif asked.lease_holder is not None:
        shell.say(
            f"Session {safe(asked.id)} was asked to stop; {safe(asked.lease_holder)} has it and stops between acts."
        )
    else:
        shell.say(f"Session {safe(asked.id)} was asked to stop, and nobody has it now.")
        shell.say(f"`{shell.again('resume', asked.id, app=True)}` ends it here, unless a worker does.")
