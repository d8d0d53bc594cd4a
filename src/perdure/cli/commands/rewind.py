"""`perdure rewind`: a branch from an earlier event, with the files of then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perdure.cli.shell import Shell, by_option, command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.control.branches.rewind import OutsideEffect, RewindResult

SOME = 20


@command
@click.argument("id")
@click.option("--to", type=click.IntRange(1), required=True, metavar="N", help="Go back to event N.")
@click.option("--id", "new", metavar="NAME", help="The branch's own name.")
@by_option
def rewind(shell: Shell, id: str, to: int, new: str | None) -> int:
    """Go back to an event: a branch from there, with the files of then.

    The session itself, its folder and what it did outside stay as they are. What cannot be taken back is listed, and
    what its tool can undo is said with it. The branch waits for your next message. Only agents have such files.
    """
    from perdure.cli.store_access import run_with_runtime
    from perdure.control.branches.rewind import rewind as rewinding
    from perdure.errors import ConfigError

    if new is not None and not new.strip():
        raise ConfigError("The branch's id is empty.", hint="Leave --id out, and a name is made.")
    shell.load()
    made = run_with_runtime(shell, lambda runtime: rewinding(runtime, id, to=to, id=new))
    if shell.json:
        shell.echo_json(made)
    else:
        shell.echo(*lines(shell, made))
    return 1 if made.problem is not None else 0


def lines(shell: Shell, made: RewindResult) -> Iterator[str]:
    """Where the branch is, what stays done outside, and what to type."""
    from perdure.cli.text.plain import safe
    from perdure.cli.text.waits import TEXT

    name = safe(made.session.id)
    yield f"Session {name} is a branch of {safe(made.parent)}, rewound to event {made.at}."
    if made.folder is not None and made.snapshot is not None:
        but = ", except those named below" if made.not_kept else ""
        yield f"Its files are those of event {made.at}{but}, in {safe(made.folder)}; {safe(made.parent)} keeps its own."
        yield from missing(made.not_kept, "is not in the snapshot: it may be missing there, or differ")
    elif made.folder is not None:
        yield f"No files were kept at event {made.at}; its folder {safe(made.folder)} has those of the last commit."
    elif made.problem is None:
        yield "The session works in no folder: only what was said is rewound."
    if made.problem is not None:
        yield f"Its folder is not open yet: {safe(made.problem)}"
        yield f"`{shell.suggest('resume', made.session.id, app=True)}` tries again."
    if made.outside:
        yield from outside(shell, made.outside, made.at)
    else:
        yield f"Nothing was done outside after event {made.at}."
    yield f"`{shell.suggest('send', made.session.id, TEXT)}` says how to go on."


def missing(not_kept: list[str], what: str) -> Iterator[str]:
    """Files that a snapshot does not hold, and what follows from it."""
    from perdure.cli.text.plain import safe

    yield from (f"  {safe(one)} {what}" for one in not_kept)


def outside(shell: Shell, done: list[OutsideEffect], number: int) -> Iterator[str]:
    """What stays done, and how to undo what can be."""
    from perdure.cli.text.plain import call, safe, short
    from perdure.cli.text.waits import TEXT

    yield f"Done outside after event {number}, and not undone:"
    for one in done[:SOME]:
        reference = f", {short(one.reference)}" if one.reference else ""
        unknown = "" if one.state == "acknowledged" else ", and nobody knows whether it happened"
        yield f"  {safe(one.effect)}  {call(one.tool, one.arguments, 100)}{reference}{unknown}"
        if one.undo:
            yield f"    {shell.suggest('undo', one.effect, '--because', TEXT, app=True)}"
    if len(done) > SOME:
        yield f"  and {len(done) - SOME} more; --json lists all"
