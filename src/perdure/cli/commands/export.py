"""`perdure export`: a session as one bundle that can travel."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from perdure.cli.shell import Shell, by_option, command

if TYPE_CHECKING:
    from perdure.interchange.export import Exported
    from perdure.runtime.runtime import Runtime


@command
@click.argument("id")
@click.option("--move", is_flag=True, help="Seal it here, so that it goes on where the bundle is imported.")
@click.option("--to", metavar="PATH", help="Where to: a .zip, or a folder; by default ID.zip in this folder.")
@click.option("--sign", is_flag=True, help="Sign it with your key, which is made when it is first needed.")
@by_option
def export(shell: Shell, id: str, move: bool, to: str | None, sign: bool) -> None:
    """Write a session as one bundle that can travel: as a copy, or as a move.

    A copy changes nothing here. After a move the session is sealed; should its bundle be lost, export it again.
    """
    from perdure.cli.store_access import run_with_runtime
    from perdure.control import receipts
    from perdure.interchange.keyring import signing_key

    key = signing_key() if sign else None  # before anything is sealed

    async def work(runtime: Runtime) -> Exported:
        import asyncio

        from perdure.interchange.export import export as write
        from perdure.store.moves import session

        found = await runtime.store.read(session.find, id)
        path = Path(to) if to is not None else Path(file_name(found.id))
        return await asyncio.to_thread(
            write, runtime.store, found.uid, path.absolute(), by=shell.by, move=move,
            artifacts=runtime.values.directory, life_of=runtime.life_of, key=key,
        )  # fmt: skip

    done = run_with_runtime(shell, work)
    receipts.keep(done.manifest_sha256)
    if shell.json:
        shell.echo_json(done)
    else:
        tell(shell, done)


def file_name(id: str) -> str:
    """A session's id as the name of a file; an id may hold letters that a path reads otherwise."""
    return "".join(one if one.isascii() and (one.isalnum() or one in "._-") else "-" for one in id) + ".zip"


def tell(shell: Shell, done: Exported) -> None:
    from perdure.cli.text.plain import count, safe

    held = ", ".join(count(done.counts[noun], noun) for noun in ("event", "effect", "artifact"))
    shell.echo(f"{safe(done.path)} holds session {done.session.id}: {held}.")
    shell.echo(*(safe(note) for note in done.notes))
    if done.copy is None:
        shell.echo("It is sealed here and goes on where the bundle is imported. Import it in one place only.")
    else:
        shell.echo("The copy has a uid of its own, and does nothing again that its original has done.")
    if done.signed_with is not None:
        shell.echo(f"It is signed by {safe(shell.by)}, with the key {done.signed_with}.")
    shell.echo(f"`perdure import {safe(Path(done.path).name)}` takes it in, at another store.")
