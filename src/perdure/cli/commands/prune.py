"""`perdure prune`: remove snapshots and folders that are no longer needed."""

from __future__ import annotations

from collections.abc import Iterator

import click

from perdure.cli.shell import Shell, by_option, command
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.branches import kept_folder_lines
from perdure.cli.text.plain import count, safe
from perdure.control.branches.prune import PruneReport
from perdure.runtime.definitions.durations import microseconds


@command
@click.option("--plan", is_flag=True, help="Only show what would be removed.")
@click.option(
    "--ended", metavar="AGE", help='Also remove the files of sessions that ended longer ago than AGE ("30d").'
)
@click.option("--access", metavar="AGE", help='Also forget who read what longer ago than AGE ("365d").')
@by_option
def prune(shell: Shell, plan: bool, ended: str | None, access: str | None) -> None:
    """Remove snapshots that no session refers to, and folders of branches that have ended.

    It keeps the files of every event of every session, the files that a branch was forked from, everything younger than
    an hour, and every folder that contains something stored nowhere else. It is safe to run beside workers, and safe to
    kill.
    """
    for age in filter(None, (ended, access)):
        microseconds(age)  # before the store is opened
    done = run_with_runtime(shell, lambda runtime: runtime.prune(ended=ended, access=access, plan=plan))
    if shell.json:
        shell.echo_json(done)
    else:
        shell.echo(*prune_lines(shell, done))


def prune_lines(shell: Shell, done: PruneReport) -> Iterator[str]:
    """What was or would be removed, what is kept and why, and how many bytes that frees."""
    removed, verb = [one for one in done.folders if one.kept is None], "would be removed" if done.plan else "removed"
    for one in removed:
        yield f"{verb}: the folder of {safe(one.branch)}, {safe(one.folder)}, {one.bytes:,} bytes"
    for one in done.folders:
        yield from kept_folder_lines(one)
    for repository, found in done.repositories.items():
        yield f"{verb}: {count(found.dropped, 'snapshot')} of {safe(repository)}; {found.kept} are kept"
        if found.missing:
            yield f"  {count(len(found.missing), 'snapshot')} that sessions refer to are missing"
    if done.reads:
        yield f"{verb}: {count(done.reads, 'line')} of the access log"
    total = max(done.bytes, 0)
    if done.plan:
        yield f"Nothing was removed. `{shell.suggest('prune')}` frees about {total:,} bytes."
    else:
        yield f"{total:,} bytes were freed."
