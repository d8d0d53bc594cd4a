"""`perdure fork`: a branch of a session from one of its events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perdure.cli.shell import Shell, by_option, command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.control.branches.files import BranchFiles
    from perdure.domain.effect import Effect
    from perdure.domain.session import SessionRecord
    from perdure.runtime.runtime import Runtime, SessionView

SOME = 10


@command
@click.argument("id")
@click.option("--at", type=click.IntRange(1), metavar="N", help="Branch after event N; by default after the last.")
@click.option("--id", "new", metavar="NAME", help="The branch's own name.")
@by_option
def fork(shell: Shell, id: str, at: int | None, new: str | None) -> None:
    """Branch a session at one of its events. No history is copied, and nothing settled there is done again.

    A branch of an agent works in a folder of its own, which begins with the files that were kept at that event.
    Effects that the session planned after that event are not inherited: a branch that plans them does them itself.
    """
    from perdure.cli.store_access import read_store, run_with_runtime
    from perdure.control.branches.files import files_at
    from perdure.errors import ConfigError
    from perdure.store.moves import effect, session

    if new is not None and not new.strip():
        raise ConfigError("The branch's id is empty.", hint="Leave --id out, and a name is made.")
    with read_store(shell) as tx:
        parent = session.find(tx, id)
        number = parent.cursor if at is None else at
        planned = effect.of_session(tx, parent.uid)

    async def work(runtime: Runtime) -> tuple[SessionView, BranchFiles]:
        return await runtime.fork(parent.uid, at=number, id=new), await files_at(runtime, parent.uid, number)

    made, files = run_with_runtime(shell, work)
    if shell.json:
        shell.echo_json(made)
    else:
        shell.echo(f"Session {made.id} is a branch of {parent.id} at event {number}.")
        shell.echo(*inheritance(parent, planned, number))
        shell.echo(*beginning(files, number))
        run = f"`{shell.suggest('resume', made.id, app=True)}` runs it."
        shell.echo(run if files.has_place else f"{needed(shell)}, then {run}")


def inheritance(parent: SessionRecord, planned: list[Effect], number: int) -> Iterator[str]:
    """What becomes of the parent's effects."""
    from perdure.cli.text.plain import count

    then = [one for one in planned if one.number <= number]
    settled = [one for one in then if one.settled_number is not None and one.settled_number <= number]
    pending = [one for one in then if one not in settled]
    after = [one for one in planned if one.number > number]
    yield f"It inherits {count(len(settled), 'settled effect')} and does none of them again."
    if pending:
        yield f"Unsettled at that event, and left to {parent.id}; the branch waits for what comes of them:"
        yield from _some(pending)
    if after:
        yield f"Planned by {parent.id} after event {number}, and not inherited; the branch may do the same again:"
        yield from _some(after)


def beginning(files: BranchFiles, number: int) -> Iterator[str]:
    """Which files the branch of an agent begins with, and what is missing."""
    from perdure.cli.commands.rewind import missing
    from perdure.cli.text.plain import safe

    if not files.is_agent:
        return
    if files.folder is None:
        yield "The session works in no folder: only what was said is branched."
    elif not files.has_place:
        return
    elif files.snapshot is None:
        yield f"No files were kept at event {number}: its folder begins with the last commit of {safe(files.folder)}."
    else:
        yield f"It will have a folder of its own, with the files of event {number}."
        yield from missing(files.not_kept, "is not in the snapshot: it may be missing there, or differ")
    if files.between:
        yield f"Event {number} is between a call and its answer: what that call changed is not among these files."
    if files.missing:
        yield safe(files.missing)


def needed(shell: Shell) -> str:
    """What to do so that the branch can have a folder of its own; without one it does not run."""
    if shell.store is not None and shell.store.startswith(("postgres://", "postgresql://")):
        return "The branch needs a folder of its own: set `artifacts` to a folder outside the repository"
    return "The branch needs a folder of its own: move the store out of the repository"


def _some(effects: list[Effect]) -> Iterator[str]:
    from perdure.cli.text.plain import call

    for one in effects[:SOME]:
        yield f"  {one.id}  {one.state}  {call(one.tool, one.intent, 100)}"
    if len(effects) > SOME:
        yield f"  and {len(effects) - SOME} more"
