"""`perdure rewind`: a branch from an earlier event, with the files as they were."""

from __future__ import annotations

from collections.abc import Iterator

import click

from perdure.cli.shell import Shell, by_option, command
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.branches import missing_file_lines
from perdure.cli.text.plain import call, safe, short
from perdure.cli.text.waits import TEXT
from perdure.control.branches.rewind import OutsideEffect, RewindResult
from perdure.control.branches.rewind import rewind as rewind_session
from perdure.errors import ConfigError

SHOWN = 20


@command
@click.argument("id")
@click.option("--to", type=click.IntRange(1), required=True, metavar="N", help="The event to go back to.")
@click.option("--id", "new", metavar="NAME", help="The id of the branch.")
@by_option
def rewind(shell: Shell, id: str, to: int, new: str | None) -> int:
    """Branch from an earlier event, with the files as they were.

    The session itself, its folder and its effects outside stay as they are. The command lists what was done outside
    after that event, with the command that undoes it if its tool can. The branch waits for your next message. Only
    sessions of agents have files to go back to.
    """
    if new is not None and not new.strip():
        raise ConfigError("The id of the branch is empty.", hint="Leave --id out to have one generated.")
    shell.load()
    made = run_with_runtime(shell, lambda runtime: rewind_session(runtime, id, to=to, id=new))
    if shell.json:
        shell.echo_json(made)
    else:
        shell.echo(*rewind_lines(shell, made))
    return 1 if made.problem is not None else 0


def rewind_lines(shell: Shell, made: RewindResult) -> Iterator[str]:
    """Where the branch is, what remains done outside, and what to type."""
    yield f"Session {safe(made.session.id)} is a branch of {safe(made.parent)}, rewound to event {made.at}."
    if made.folder is not None and made.snapshot is not None:
        but = ", except those listed below" if made.not_kept else ""
        yield f"Its files are as they were at event {made.at}{but}; those of {safe(made.parent)} did not change."
        yield f"Its folder is {safe(made.folder)}"
        yield from missing_file_lines(made.not_kept)
    elif made.folder is not None:
        yield f"Event {made.at} has no snapshot; its folder {safe(made.folder)} has the files of the last commit."
    elif made.problem is None:
        yield "The session works in no folder: only its transcript is rewound."
    if made.problem is not None:
        yield f"Its folder is not open yet: {safe(made.problem)}"
        yield f"Run `{shell.suggest('resume', made.session.id, app=True)}` to try again."
    if made.outside:
        yield from outside_lines(shell, made.outside, made.at)
    else:
        yield f"Nothing was done outside after event {made.at}."
    yield f"Run `{shell.suggest('send', made.session.id, TEXT)}` to tell the agent how to continue."


def outside_lines(shell: Shell, done: list[OutsideEffect], number: int) -> Iterator[str]:
    """What remains done, and the commands that undo it."""
    yield f"Done outside after event {number}, and not undone:"
    for one in done[:SHOWN]:
        reference = f", {short(one.reference)}" if one.reference else ""
        unknown = "" if one.state == "acknowledged" else ", outcome unknown"
        yield f"  {safe(one.effect)}  {call(one.tool, one.arguments, 100)}{reference}{unknown}"
        if one.undo:
            yield f"    {shell.suggest('undo', one.effect, '--because', TEXT, app=True)}"
    if len(done) > SHOWN:
        yield f"  and {len(done) - SHOWN} more; --json lists all"
