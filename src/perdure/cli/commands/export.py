"""`perdure export`: a session as a bundle that can be imported into another store."""

from __future__ import annotations

from pathlib import Path

import click

from perdure.cli.shell import Shell, by_option, command
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.plain import count, safe
from perdure.interchange.export import Exported


@command
@click.argument("id")
@click.option("--move", is_flag=True, help="Seal it here; it continues where the bundle is imported.")
@click.option("--to", metavar="PATH", help="The .zip file or folder to write (default: ID.zip in this folder).")
@click.option("--sign", is_flag=True, help="Sign it with your key, which is created when first needed.")
@click.option("--without-files", is_flag=True, help="Leave out the snapshots of its folder.")
@click.option(
    "--max-files-size", metavar="SIZE", default="1G", show_default=True, help="Carry no more than SIZE of them."
)
@click.option("--thin", is_flag=True, help="Leave out what a remote has; the import needs a clone.")
@by_option
def export(
    shell: Shell, id: str, move: bool, to: str | None, sign: bool, without_files: bool, max_files_size: str, thin: bool
) -> None:
    """Export a session as a bundle, as a copy or as a move.

    A copy changes nothing here. A move seals the session here; if the bundle is lost, export it again. The bundle of an
    agent carries the snapshots of its folder, so that `diff`, `rewind` and `fork` work where it is imported.
    """
    done = run_with_runtime(
        shell,
        lambda runtime: runtime.export(
            id, to, move=move, sign=sign, files=not without_files, max_files_size=max_files_size, thin=thin
        ),
    )
    if shell.json:
        shell.echo_json(done)
    else:
        show_export(shell, done)


def show_export(shell: Shell, done: Exported) -> None:
    nouns = [noun for noun in ("event", "effect", "artifact", "snapshot") if noun in done.counts]
    contents = ", ".join(count(done.counts[noun], noun) for noun in nouns)
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
