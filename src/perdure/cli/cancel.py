"""`perdure cancel`: ask a session to stop."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import click

from perdure.cli.command import Shell, command, person

if TYPE_CHECKING:
    from perdure.agent.clearing import Cleared
    from perdure.runtime.runtime import Runtime, SessionView


@command
@click.argument("id")
@person
def cancel(shell: Shell, id: str) -> None:
    """Ask a session to stop, and its children with it.

    Whoever has it honours that between two acts; what was begun is seen to its end. The folder of a branch goes with
    it, unless something in there is kept nowhere else.
    """
    from perdure.cli.opening import acting
    from perdure.cli.plain import safe
    from perdure.cli.prune import stays

    asked, cleared = acting(shell, lambda runtime: stopped(runtime, id, shell.by))
    if shell.json:
        shell.emit(asked)
    elif asked.status == "cancelled":
        shell.say(f"Session {safe(asked.id)} is cancelled.")
        for one in cleared:
            shell.say(*(stays(one) if one.kept else [f"Its folder {safe(one.folder)} is removed."]))
    elif asked.lease_holder is not None:
        shell.say(
            f"Session {safe(asked.id)} was asked to stop; {safe(asked.lease_holder)} has it and stops between acts."
        )
    else:
        shell.say(f"Session {safe(asked.id)} was asked to stop, and nobody has it now.")
        shell.say(f"`{shell.again('resume', asked.id, app=True)}` ends it here, unless a worker does.")


async def stopped(runtime: Runtime, name: str, by: str) -> tuple[SessionView, list[Cleared]]:
    """Ask for the end. A branch that nobody has and that has begun nothing ends here, and its folder with it."""
    from perdure.control.pruning import clear_folders
    from perdure.errors import LeaseHeld, LeaseLost
    from perdure.store import effect

    asked = await runtime.cancel(name, by=by)
    begun = await runtime.store.read(effect.unsettled, asked.uid)
    if asked.forked_from is None or begun:
        return asked, []
    with suppress(LeaseHeld, LeaseLost):
        asked = await runtime.run(asked.uid)
    cleared = await clear_folders(runtime, only=asked.uid) if asked.status == "cancelled" else []
    return asked, cleared
