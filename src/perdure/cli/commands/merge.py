"""`perdure merge`: the changes of a branch, merged into the folder of its parent."""

from __future__ import annotations

from collections.abc import Iterator

import click

from perdure.cli.shell import Shell, by_option, command
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.branches import missing_file_lines
from perdure.cli.text.plain import count, safe
from perdure.control.branches.merge import MergeResult

SHOWN = 50


@command
@click.argument("id")
@click.option("--mark", is_flag=True, help="Write conflicts into the files, between markers.")
@by_option
def merge(shell: Shell, id: str, mark: bool) -> int:
    """Merge a branch into the folder that it was branched from.

    Only files change: your commits, your index and your git branches stay as they are. Exits with 3 if there are
    conflicts for you to resolve, and with 4 if another process works in one of the folders.
    """
    shell.load()
    made = run_with_runtime(shell, lambda runtime: runtime.merge(id, mark=mark))
    if shell.json:
        shell.echo_json(made)
    else:
        shell.echo(*merge_lines(shell, made))
    return 3 if made.merged.conflicts else 0


def merge_lines(shell: Shell, made: MergeResult) -> Iterator[str]:
    """What was written, or which conflicts to resolve and how."""
    merged, where = made.merged, f"{safe(made.folder)}, the folder of {safe(made.parent)}"
    changed = [*(f"  written  {safe(path)}" for path in merged.written[:SHOWN])]
    changed += [f"  removed  {safe(path)}" for path in merged.removed[:SHOWN]]
    if merged.conflicts and not merged.marked:
        yield f"{count(len(merged.conflicts), 'conflict')}; nothing was written to {where}:"
        yield from (f"  {safe(one)}" for one in merged.conflicts[:SHOWN])
        yield f"`{shell.suggest('diff', made.branch, '--parent')}` shows both sides. Change one and merge again, or"
        yield f"run `{shell.suggest('merge', made.branch, '--mark', app=True)}` to write the conflicts between markers."
        return
    if not changed:
        yield f"There is nothing new in {safe(made.branch)} for {where}."
    else:
        yield f"{safe(made.branch)} is merged into {where}:"
        yield from changed
        if made.commits is not None:
            yield f"Files are merged, not commits. `git merge {made.commits}` merges the commits of the branch."
        if len(merged.written) > SHOWN or len(merged.removed) > SHOWN:
            yield f"  {len(merged.written)} files were written and {len(merged.removed)} removed; --json lists all"
    yield from missing_file_lines(made.not_kept, "is not in the snapshot of the branch, and is not merged")
    if merged.conflicts:
        yield "Resolve the conflicts, between <<<<<<< and >>>>>>> in these files:"
        yield from (f"  {safe(one)}" for one in merged.conflicts[:SHOWN])
