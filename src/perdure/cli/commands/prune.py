"""`perdure prune`: remove snapshots and folders that are no longer needed."""

from __future__ import annotations

from collections.abc import Iterator

import click

from perdure.agent.files.prune import PruneResult
from perdure.agent.files.worktree import FolderRemoval
from perdure.cli.shell import Shell, by_option, command
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.branches import kept_folder_lines
from perdure.cli.text.plain import count, safe
from perdure.control.branches.prune import clear_folders
from perdure.control.branches.prune import prune as prune_snapshots
from perdure.runtime.definitions.durations import microseconds
from perdure.runtime.runtime import Runtime


@command
@click.option("--plan", is_flag=True, help="Only show what would be removed.")
@click.option(
    "--ended", metavar="AGE", help='Also remove the files of sessions that ended longer ago than AGE ("30d").'
)
@by_option
def prune(shell: Shell, plan: bool, ended: str | None) -> None:
    """Remove snapshots that no session refers to, and folders of branches that have ended.

    It keeps the files of every event of every session, the files that a branch was forked from, everything younger than
    an hour, and every folder that contains something stored nowhere else. It is safe to run beside workers, and safe to
    kill.
    """
    age = None if ended is None else microseconds(ended)

    async def work(runtime: Runtime) -> tuple[list[FolderRemoval], dict[str, PruneResult]]:
        before = None if age is None else runtime.store.clock.now() - age
        folders = await clear_folders(runtime, plan=plan)
        return folders, await prune_snapshots(runtime, ended_before=before, plan=plan)

    folders, pruned = run_with_runtime(shell, work)
    if shell.json:
        size = freed_bytes(folders, pruned)
        shell.echo_json({"plan": plan, "folders": folders, "repositories": pruned, "bytes": size})
    else:
        shell.echo(*prune_lines(shell, folders, pruned, plan))


def freed_bytes(folders: list[FolderRemoval], pruned: dict[str, PruneResult]) -> int:
    return sum(one.bytes for one in folders) + sum(one.bytes_before - one.bytes_after for one in pruned.values())


def prune_lines(
    shell: Shell, folders: list[FolderRemoval], pruned: dict[str, PruneResult], plan: bool
) -> Iterator[str]:
    """What was or would be removed, what is kept and why, and how many bytes that frees."""
    removed, verb = [one for one in folders if one.kept is None], "would be removed" if plan else "removed"
    for one in removed:
        yield f"{verb}: the folder of {safe(one.branch)}, {safe(one.folder)}, {one.bytes:,} bytes"
    for one in folders:
        yield from kept_folder_lines(one)
    for repository, found in pruned.items():
        yield f"{verb}: {count(found.dropped, 'snapshot')} of {safe(repository)}; {found.kept} are kept"
        if found.missing:
            yield f"  {count(len(found.missing), 'snapshot')} that sessions refer to are missing"
    total = max(freed_bytes(folders, pruned), 0)
    if plan:
        yield f"Nothing was removed. `{shell.suggest('prune')}` frees about {total:,} bytes."
    else:
        yield f"{total:,} bytes were freed."
