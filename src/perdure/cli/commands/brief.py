"""`perdure brief`: a handover summary of a session, made from its record."""

from __future__ import annotations

from pathlib import Path

import click

from perdure.cli.shell import Shell, command
from perdure.cli.store_access import read_logged, run_with_runtime, transcript_of
from perdure.cli.text.brief import MARKS, as_markdown, as_text
from perdure.cli.text.waits import WaitDescription, describe_waits
from perdure.config import is_service
from perdure.control.brief import Brief, make_brief
from perdure.domain.session import TERMINAL
from perdure.durable import write_whole
from perdure.errors import Conflict
from perdure.runtime.runtime import Runtime
from perdure.store.inspection import read_access
from perdure.store.moves import session


@command
@click.argument("id")
@click.option(
    "--format", "form", type=click.Choice(["text", "agents-md"]), default="text", show_default=True,
    help="Text for people, or Markdown for another agent.",
)  # fmt: skip
@click.option("--to", metavar="FILE", help="Write it to FILE, atomically.")
def brief(shell: Shell, id: str, form: str, to: str | None) -> None:
    """Print a handover summary of a session.

    It contains the goal, standing orders, decisions, open tasks, effects in doubt, what was done outside and what
    changed since. It is made from the record, and states as of which event. An existing FILE that is not a brief is
    never overwritten.
    """
    made, waits = read_brief(shell, id)
    if shell.json:
        shell.echo_json(made)
        return
    lines = as_text(shell, made, waits) if form == "text" else as_markdown(shell, made, waits)
    if to is None:
        shell.echo(*lines)
        return
    write(Path(to), "\n".join(click.unstyle(line) for line in lines) + "\n")
    shell.echo(f"The brief of session {made.session} as of event {made.number} is in {to}.")


def read_brief(shell: Shell, id: str) -> tuple[Brief, list[WaitDescription]]:
    """The brief and the waits of a session, as of one moment."""
    if is_service(shell.store):
        return run_with_runtime(shell, lambda runtime: _brief_there(runtime, id))
    place, artifacts = read_access.locate_store(shell.store), shell.settings.get("artifacts")
    beside = place.folder or (Path(artifacts) if artifacts else None)
    with read_logged(shell, "transcript", transcript_of(id)) as tx:
        found = session.find(tx, id)
        is_open = found.status not in TERMINAL and found.sealed_at is None
        return make_brief(tx, found, beside), describe_waits(tx, found) if is_open else []


async def _brief_there(runtime: Runtime, id: str) -> tuple[Brief, list[WaitDescription]]:
    view = await runtime.get(id)
    is_open = view.status not in TERMINAL and view.sealed_at is None
    waits = await runtime.store.read(describe_waits, view) if is_open else []
    return await runtime.brief(view.uid), waits


def write(path: Path, text: str) -> None:
    """Write the file, atomically. A file that is not a brief is never replaced."""
    if path.is_symlink() or (path.exists() and not _start_of(path).startswith(MARKS)):
        raise Conflict(f"{path} exists and is not a brief.", hint="Name another file, or remove this one first.")
    write_whole(path, text.encode(), mode=0o666)


def _start_of(path: Path) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read(100)
