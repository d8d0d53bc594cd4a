"""`perdure import`: a bundle comes in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from perdure.cli.command import Shell, command, person

if TYPE_CHECKING:
    from perdure.interchange.import_ import Imported
    from perdure.runtime.runtime import Runtime


@command
@click.argument("file")
@click.option("--id", "new", metavar="NEW", help="A name of its own, where another session has its name already.")
@click.option("--take-back", is_flag=True, help="Undo a move: say that it was imported nowhere else.")
@person
def import_(shell: Shell, file: str, new: str | None, take_back: bool) -> None:
    """Take a bundle in: a copy goes on beside its original, a move goes on in its place.

    A bundle that is torn or does not verify is refused whole. Importing it again changes nothing.
    """
    from perdure.cli.opening import acting
    from perdure.interchange.import_ import checked

    with checked(Path(file)) as bundle:  # before a store is made for what is refused

        async def work(runtime: Runtime) -> Imported:
            import asyncio

            artifacts = runtime.values.directory
            return await asyncio.to_thread(
                bundle.into, runtime.store, by=shell.by, id=new, take_back=take_back, artifacts=artifacts
            )

        done = acting(shell, work, create=True)
    if shell.json:
        shell.emit(done)
    else:
        tell(shell, done)


def tell(shell: Shell, done: Imported) -> None:
    from perdure.domain.session import TERMINAL

    here, source = done.session, done.source
    if not done.changed:
        shell.say(f"Session {here.id} is here already; nothing changed.")
    elif done.mode == "copy":
        shell.say(f"Session {here.id} is a copy of {source.id} at event {source.cursor}, which is kept as history.")
    else:
        shell.say(f"Session {here.id} goes on here, from event {source.cursor}.")
    if here.sealed_at is not None:
        shell.say("It is sealed: it was moved on from here.")
    elif here.status not in TERMINAL:
        shell.say(f"`{shell.again('resume', here.id, app=True)}` runs it.")
