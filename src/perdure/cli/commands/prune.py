"""`perdure prune`: drop snapshots and folders that nothing needs any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perdure.cli.shell import Shell, by_option, command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.agent.files.prune import PruneResult
    from perdure.agent.files.worktree import FolderRemoval
    from perdure.runtime.runtime import Runtime


@command
@click.option("--plan", is_flag=True, help="Only show what would be removed.")
@click.option("--ended", metavar="AGE", help='Also the files of sessions that ended so long ago, such as "30d".')
@by_option
def prune(shell: Shell, plan: bool, ended: str | None) -> None:
    """Remove snapshots that no session names, and folders of branches that have ended.

    Kept are the files of every event of every session, what a branch was forked from, whatever is younger than an hour,
    and a folder in which something would be lost. It is safe beside workers, and safe to kill.
    """
    from perdure.cli.store_access import run_with_runtime
    from perdure.control.branches.prune import clear_folders
    from perdure.control.branches.prune import prune as pruning
    from perdure.runtime.definitions.durations import microseconds

    age = None if ended is None else microseconds(ended)

    async def work(runtime: Runtime) -> tuple[list[FolderRemoval], dict[str, PruneResult]]:
        before = None if age is None else runtime.store.clock.now() - age
        folders = await clear_folders(runtime, plan=plan)
        return folders, await pruning(runtime, ended_before=before, plan=plan)

    folders, pruned = run_with_runtime(shell, work)
    if shell.json:
        shell.echo_json({"plan": plan, "folders": folders, "repositories": pruned, "bytes": freed(folders, pruned)})
    else:
        shell.echo(*lines(shell, folders, pruned, plan))


def freed(folders: list[FolderRemoval], pruned: dict[str, PruneResult]) -> int:
    return sum(one.bytes for one in folders) + sum(one.bytes_before - one.bytes_after for one in pruned.values())


def lines(shell: Shell, folders: list[FolderRemoval], pruned: dict[str, PruneResult], plan: bool) -> Iterator[str]:
    """What went or would go, what stays and why, and how many bytes that is."""
    from perdure.cli.text.plain import count, safe

    gone, verb = [one for one in folders if one.kept is None], "would be removed" if plan else "removed"
    for one in gone:
        yield f"{verb}: the folder of {safe(one.branch)}, {safe(one.folder)}, {one.bytes:,} bytes"
    for one in folders:
        yield from stays(one)
    for repository, found in pruned.items():
        yield f"{verb}: {count(found.dropped, 'snapshot')} of {safe(repository)}; {found.kept} are kept"
        if found.missing:
            yield f"  {count(len(found.missing), 'snapshot')} that sessions name are not here"
    total = freed(folders, pruned)
    if plan:
        yield f"Nothing was removed. `{shell.suggest('prune')}` frees about {max(total, 0):,} bytes."
    else:
        yield f"{max(total, 0):,} bytes are free."


def stays(one: FolderRemoval) -> Iterator[str]:
    """Where a folder is that was not removed, why, and how to remove it."""
    import shlex

    from perdure.cli.text.plain import safe

    if one.kept is not None:
        how = ["git", "worktree", "remove", "--force", one.folder] if one.is_git else ["rm", "-r", one.folder]
        yield f"The folder of {safe(one.branch)} stays, {safe(one.folder)}: {safe(one.kept)}."
        yield f"`{safe(shlex.join(how))}` removes it all the same."
