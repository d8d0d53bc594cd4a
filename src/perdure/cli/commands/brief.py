"""`perdure brief`: what somebody needs to know who takes a session over, made from the record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from perdure.cli.shell import Shell, command

if TYPE_CHECKING:
    from perdure.cli.text.waits import WaitDescription
    from perdure.control.brief import Brief


@command
@click.argument("id")
@click.option(
    "--format", "form", type=click.Choice(["text", "agents-md"]), default="text", show_default=True,
    help="For people, or as Markdown that another agent can start from.",
)  # fmt: skip
@click.option("--to", metavar="FILE", help="Write it to FILE instead, whole or not at all.")
def brief(shell: Shell, id: str, form: str, to: str | None) -> None:
    """Say what somebody needs to know who takes a session over.

    Its goal, standing orders, decisions, open tasks, what is in doubt, what was done outside and what changed since.
    It is made from the record and says as of which event. A FILE that is no brief is never overwritten.
    """
    told, asked = look(shell, id)
    if shell.json:
        shell.echo_json(told)
        return
    from perdure.cli.text.brief import as_markdown, as_text

    lines = as_text(shell, told, asked) if form == "text" else as_markdown(shell, told, asked)
    if to is None:
        shell.echo(*lines)
        return
    write(Path(to), "\n".join(click.unstyle(line) for line in lines) + "\n")
    shell.echo(f"{to} is the brief of session {told.session} as of event {told.number}.")


def look(shell: Shell, id: str) -> tuple[Brief, list[WaitDescription]]:
    """One moment of the store: the brief, and what is waited for in words."""
    from perdure.cli.store_access import read_store
    from perdure.cli.text import waits
    from perdure.control import brief
    from perdure.domain.session import TERMINAL
    from perdure.store.inspection import read_access
    from perdure.store.moves import session

    place, artifacts = read_access.locate_store(shell.store), shell.settings.get("artifacts")
    beside = place.folder or (Path(artifacts) if artifacts else None)
    with read_store(shell) as tx:
        found = session.find(tx, id)
        asked = [] if found.status in TERMINAL or found.sealed_at is not None else waits.describe_waits(tx, found)
        return brief.brief(tx, found, beside), asked


def write(path: Path, text: str) -> None:
    """Replace a brief by a newer one, in one step; anything else that is there stays."""
    from perdure.cli.text.brief import MARKS
    from perdure.durable import write_whole
    from perdure.errors import Conflict

    if path.is_symlink() or (path.exists() and not _begins(path).startswith(MARKS)):
        raise Conflict(f"{path} is there and is no brief.", hint="Name another file, or remove it first.")
    write_whole(path, text.encode(), mode=0o666)


def _begins(path: Path) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read(100)
