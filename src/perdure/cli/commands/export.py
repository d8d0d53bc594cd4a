"""`perdure export`: a session as a bundle that can be imported into another store."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from perdure.cli.shell import Shell, by_option, command
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.plain import count, safe
from perdure.control import receipts
from perdure.interchange.export import Exported
from perdure.interchange.export import export as write_bundle
from perdure.interchange.signing_keys import signing_key
from perdure.runtime.runtime import Runtime
from perdure.store.moves import session


@command
@click.argument("id")
@click.option("--move", is_flag=True, help="Seal it here; it continues where the bundle is imported.")
@click.option("--to", metavar="PATH", help="The .zip file or folder to write (default: ID.zip in this folder).")
@click.option("--sign", is_flag=True, help="Sign it with your key, which is created when first needed.")
@by_option
def export(shell: Shell, id: str, move: bool, to: str | None, sign: bool) -> None:
    """Export a session as a bundle, as a copy or as a move.

    A copy changes nothing here. A move seals the session here; if the bundle is lost, export it again.
    """
    key = signing_key() if sign else None  # before anything is sealed

    async def work(runtime: Runtime) -> Exported:
        found = await runtime.store.read(session.find, id)
        path = Path(to) if to is not None else Path(file_name(found.id))
        return await asyncio.to_thread(
            write_bundle, runtime.store, found.uid, path.absolute(), by=shell.by, move=move,
            artifacts=runtime.values.directory, life_of=runtime.life_of, key=key,
        )  # fmt: skip

    done = run_with_runtime(shell, work)
    receipts.keep(done.manifest_sha256)
    if shell.json:
        shell.echo_json(done)
    else:
        show_export(shell, done)


def file_name(id: str) -> str:
    """A session id as a file name; an id may contain characters that have a meaning in a path."""
    return "".join(one if one.isascii() and (one.isalnum() or one in "._-") else "-" for one in id) + ".zip"


def show_export(shell: Shell, done: Exported) -> None:
    contents = ", ".join(count(done.counts[noun], noun) for noun in ("event", "effect", "artifact"))
    shell.echo(f"{safe(done.path)} contains session {done.session.id}: {contents}.")
    shell.echo(*(safe(note) for note in done.notes))
    if done.copy is None:
        shell.echo(
            "The session is sealed here and continues where the bundle is imported. Import it in one place only."
        )
    else:
        shell.echo("The copy has its own uid, and does not repeat what its original has done.")
    if done.signed_with is not None:
        shell.echo(f"It is signed by {safe(shell.by)}, with the key {done.signed_with}.")
    shell.echo(f"`perdure import {safe(Path(done.path).name)}` imports it into another store.")
