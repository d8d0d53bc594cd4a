"""`perdure rewind`: the files as they were at an earlier event, in a branch or in place."""

from __future__ import annotations

from collections.abc import Iterator

import click

from perdure.agent.files.rewind.folder_rewind import FolderRewind
from perdure.cli.prompts.trust_prompt import can_ask
from perdure.cli.remote.supported import check_here
from perdure.cli.shell import Shell, by_option, command
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.branches import missing_file_lines
from perdure.cli.text.plain import call, count, safe, short
from perdure.cli.text.waits import TEXT
from perdure.control.branches.in_place_rewind import (
    InPlaceRewind,
    RewindPlan,
    finish_rewind,
)
from perdure.control.branches.rewind import OutsideEffect, RewindResult
from perdure.errors import ConfigError

SHOWN = 20
LISTED = 50  # paths of one kind that are listed


@command
@click.argument("id")
@click.option("--to", type=click.IntRange(1), metavar="N", help="The event to go back to.")
@click.option("--id", "new", metavar="NAME", help="The id of the branch.")
@click.option("--here", is_flag=True, help="Put the files of the session's own folder back, instead of a branch.")
@click.option("--snapshot", metavar="NAME", help="With --here: a snapshot to go back to, instead of an event.")
@click.option("--plan", is_flag=True, help="With --here: only show what would change.")
@click.option("--yes", is_flag=True, help="With --here: do not ask for confirmation.")
@by_option
def rewind(
    shell: Shell, id: str, to: int | None, new: str | None, here: bool, snapshot: str | None, plan: bool, yes: bool
) -> int:
    """Branch from an earlier event, with the files as they were.

    The session itself, its folder and its effects outside stay as they are. The command lists what was done outside
    after that event, with the command that undoes it if its tool can. The branch waits for your next message. Only
    sessions of agents have files to go back to.

    With --here no branch is made: the files of the session's own folder are put back, after a snapshot of what is
    there. The command shows what will change and asks first. Ignored files and files in no snapshot are left alone, and
    so is a file that changes meanwhile. The output names the command that takes the rewind back.
    """
    shell.load()
    if here:
        check_here(shell, "rewind --here")
        if new is not None:
            raise ConfigError("--here makes no branch, so --id has no meaning.", hint="Leave one of them out.")
        return rewind_here(shell, id, to, snapshot, plan=plan, yes=yes)
    if plan or yes or snapshot is not None:
        raise ConfigError("--plan, --yes and --snapshot need --here.", hint="Without --here a branch is made.")
    if to is None:
        raise ConfigError("The event to go back to is missing.", hint="Give --to N; `perdure show` lists the events.")
    if new is not None and not new.strip():
        raise ConfigError("The id of the branch is empty.", hint="Leave --id out to have one generated.")
    made = run_with_runtime(shell, lambda runtime: runtime.rewind(id, to=to, id=new))
    if shell.json:
        shell.echo_json(made)
    else:
        shell.echo(*rewind_lines(shell, made))
    return 1 if made.problem is not None else 0


def rewind_here(shell: Shell, id: str, to: int | None, snapshot: str | None, *, plan: bool, yes: bool) -> int:
    """Show what a rewind in place would change, ask, and do it. Returns 3 if a person has to look at a path."""
    earlier = None if plan else run_with_runtime(shell, lambda runtime: finish_rewind(runtime, id))
    if earlier is not None and not shell.json:
        shell.echo(f"An interrupted rewind, {safe(earlier.by_session or '')}, was finished first:")
        shell.echo(*in_place_lines(shell, earlier))
    planned = run_with_runtime(shell, lambda runtime: runtime.plan_rewind(id, to=to, snapshot=snapshot))
    if not shell.json:
        shell.echo(*plan_lines(planned))
    if plan or planned.is_empty:
        if shell.json:
            shell.echo_json(InPlaceRewind(planned, FolderRewind(kept=planned.kept)))
        return 0
    if not yes:
        if not can_ask(shell):
            raise ConfigError("Nothing was changed: a rewind in place needs confirmation.", hint="Add --yes.")
        if not click.confirm("Put these files back?", default=False, err=True):
            shell.echo("Nothing was changed.")
            return 1
    done = run_with_runtime(shell, lambda runtime: runtime.rewind_in_place(planned))
    if shell.json:
        shell.echo_json(done)
    else:
        shell.echo(*in_place_lines(shell, done))
    return 3 if done.result.refused else 0


def plan_lines(plan: RewindPlan) -> Iterator[str]:
    """What would change in the folder, and what stays."""
    goal = "the snapshot" if plan.event is None else f"event {plan.event}"
    if plan.is_empty:
        yield f"Nothing to change: the files of {safe(plan.folder)} are as at {goal}."
    else:
        counts = (f"{len(paths)} {word}" for word, paths in _plan_groups(plan) if paths)
        yield f"Back to {goal} in {safe(plan.folder)}: {', '.join(counts)}"
        for word, paths in _plan_groups(plan):
            yield from (f"  {word:9}{safe(path)}" for path in paths[:LISTED])
            if len(paths) > LISTED:
                yield f"  and {len(paths) - LISTED} more {word}; --json lists all"
    for one in plan.kept[:LISTED]:
        yield f"  stays    {safe(one.path)}: {one.why}"
    if len(plan.kept) > LISTED:
        yield f"  and {len(plan.kept) - LISTED} more stay; --json lists all"
    named = tuple(f"{one.path} (" for one in plan.kept)
    yield from (f"  stays    {safe(one)}, in no snapshot" for one in plan.unsaved if not one.startswith(named))
    yield from (f"  missing  {safe(one)}: it was in no snapshot then" for one in plan.left_out)
    if plan.unfinished is not None:
        yield f"An earlier rewind, {safe(plan.unfinished)}, was interrupted; the next one finishes it first."


def _plan_groups(plan: RewindPlan) -> list[tuple[str, list[str]]]:
    return [("added", plan.added), ("changed", plan.changed), ("removed", plan.removed)]


def in_place_lines(shell: Shell, done: InPlaceRewind) -> Iterator[str]:
    """What was done, what was refused, and how to take it back."""
    result, plan = done.result, done.plan
    yield f"{count(len(result.written), 'file')} written, {len(result.removed)} removed."
    if result.refused:
        yield f"{count(len(result.refused), 'path')} not changed:"
        yield from (f"  {safe(one.path)}: {one.why}" for one in result.refused[:LISTED])
        if len(result.refused) > LISTED:
            yield f"  and {len(result.refused) - LISTED} more; --json lists all"
    if result.snapshot is None:
        yield "No snapshot could be taken afterwards."
    back = shell.suggest("rewind", plan.session, "--here", "--snapshot", plan.before)
    yield f"What was there before is snapshot {plan.before[:12]}. `{back}` takes this back."


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
