"""`perdure fork`: a branch of a session from one of its events."""

from __future__ import annotations

from collections.abc import Iterator

import click

from perdure.cli.shell import Shell, by_option, command
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.branches import missing_file_lines
from perdure.cli.text.plain import call, count, safe
from perdure.config import is_service
from perdure.control.branches.files import BranchFiles, files_at
from perdure.domain.effect import Effect
from perdure.domain.session import SessionRecord
from perdure.errors import ConfigError
from perdure.runtime.runtime import Runtime, SessionView
from perdure.store.moves import session

SHOWN = 10


@command
@click.argument("id")
@click.option("--at", type=click.IntRange(1), metavar="N", help="Branch after event N (default: after the last).")
@click.option("--id", "new", metavar="NAME", help="The id of the branch.")
@by_option
def fork(shell: Shell, id: str, at: int | None, new: str | None) -> None:
    """Branch a session at one of its events.

    No history is copied, and effects that were settled by then are not repeated. The branch of an agent works in its
    own folder, which starts with the files at that event. Effects that the session planned after that event are not
    inherited: the branch may plan and do them itself.
    """
    if new is not None and not new.strip():
        raise ConfigError("The id of the branch is empty.", hint="Leave --id out to have one generated.")

    async def work(runtime: Runtime) -> tuple[SessionRecord, int, list[Effect], SessionView, BranchFiles]:
        parent = await runtime.store.read(session.find, id)
        number = parent.cursor if at is None else at
        planned = sorted([one async for one in runtime.effects(session=parent.uid)], key=lambda one: one.number)
        made = await runtime.fork(parent.uid, at=number, id=new)
        on_service = is_service(shell.store)  # its files are there
        files = BranchFiles(is_agent=False) if on_service else await files_at(runtime, parent.uid, number)
        return parent, number, planned, made, files

    parent, number, planned, made, files = run_with_runtime(shell, work)
    if shell.json:
        shell.echo_json(made)
    else:
        shell.echo(f"Session {made.id} is a branch of {parent.id} at event {number}.")
        shell.echo(*effect_lines(parent, planned, number))
        shell.echo(*file_lines(files, number))
        if not files.has_place:
            shell.echo(folder_needed(shell))
        shell.echo(f"Run `{shell.suggest('resume', made.id, app=True)}` to start it.")


def effect_lines(parent: SessionRecord, planned: list[Effect], number: int) -> Iterator[str]:
    """Which effects of the parent the branch inherits."""
    before = [one for one in planned if one.number <= number]
    settled = [one for one in before if one.settled_number is not None and one.settled_number <= number]
    pending = [one for one in before if one not in settled]
    after = [one for one in planned if one.number > number]
    yield f"It inherits {count(len(settled), 'settled effect')} and repeats none of them."
    if pending:
        yield f"Not settled at that event. {parent.id} settles them, and the branch waits for the outcome:"
        yield from _first(pending)
    if after:
        yield f"Planned by {parent.id} after event {number}, and not inherited. The branch may do the same again:"
        yield from _first(after)


def file_lines(files: BranchFiles, number: int) -> Iterator[str]:
    """Which files the branch of an agent starts with, and what is missing."""
    if not files.is_agent:
        return
    if files.folder is None:
        yield "The session works in no folder: only its transcript is branched."
    elif not files.has_place:
        return
    elif files.snapshot is None:
        yield f"Event {number} has no snapshot: its folder starts with the last commit of {safe(files.folder)}."
    else:
        yield f"It gets its own folder, with the files as they were at event {number}."
        yield from missing_file_lines(files.not_kept)
    if files.between:
        yield f"Event {number} is between a tool call and its result: the changes of that call are not in these files."
    if files.missing:
        yield safe(files.missing)


def folder_needed(shell: Shell) -> str:
    """What to do so that the branch can have its own folder; without one it does not run."""
    if shell.store is not None and shell.store.startswith(("postgres://", "postgresql://")):
        return "The branch needs its own folder. Set `artifacts` to a folder outside the repository first."
    return "The branch needs its own folder. Move the store out of the repository first."


def _first(effects: list[Effect]) -> Iterator[str]:
    for one in effects[:SHOWN]:
        yield f"  {one.id}  {one.state}  {call(one.tool, one.intent, 100)}"
    if len(effects) > SHOWN:
        yield f"  and {len(effects) - SHOWN} more"
