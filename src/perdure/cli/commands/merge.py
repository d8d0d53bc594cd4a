"""`perdure merge`: bring a branch of an agent's session home."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perdure.cli.shell import Shell, by_option, command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.control.branches.merge import MergeResult

SOME = 50


@command
@click.argument("id")
@click.option("--mark", is_flag=True, help="Write conflicts into the files, between markers.")
@by_option
def merge(shell: Shell, id: str, mark: bool) -> int:
    """Bring a branch home, into the folder that it was branched from.

    Your commits, your index and your branches are not touched: you find changed files. Exits with 3 when there are
    conflicts, which are for you to decide, and with 4 when another process works in either folder.
    """
    from perdure.cli.store_access import run_with_runtime
    from perdure.control.branches.merge import merge as merging

    shell.load()
    made = run_with_runtime(shell, lambda runtime: merging(runtime, id, mark=mark))
    if shell.json:
        shell.echo_json(made)
    else:
        shell.echo(*lines(shell, made))
    return 3 if made.merged.conflicts else 0


def lines(shell: Shell, made: MergeResult) -> Iterator[str]:
    """What was written, or what is to be decided and how."""
    from perdure.cli.commands.rewind import missing
    from perdure.cli.text.plain import count, safe

    merged, where = made.merged, f"{safe(made.folder)}, the folder of {safe(made.parent)}"
    changed = [*(f"  written  {safe(path)}" for path in merged.written[:SOME])]
    changed += [f"  removed  {safe(path)}" for path in merged.removed[:SOME]]
    if merged.conflicts and not merged.marked:
        yield f"{count(len(merged.conflicts), 'conflict')}; nothing was written to {where}:"
        yield from (f"  {safe(one)}" for one in merged.conflicts[:SOME])
        yield f"`{shell.suggest('diff', made.branch, '--parent')}` shows both sides; change one and merge again, or"
        yield f"`{shell.suggest('merge', made.branch, '--mark', app=True)}` writes the conflicts between markers."
        return
    if not changed:
        yield f"There is nothing new in {safe(made.branch)} for {where}."
    else:
        yield f"{safe(made.branch)} is merged into {where}:"
        yield from changed
        if made.commits is not None:
            yield f"Files are merged, and not commits: `git merge {made.commits}` brings those of the branch."
        if len(merged.written) > SOME or len(merged.removed) > SOME:
            yield f"  {len(merged.written)} files were written and {len(merged.removed)} removed; --json lists all"
    yield from missing(made.not_kept, "is not in the snapshot of the branch, and is not merged")
    if merged.conflicts:
        yield "To decide, between <<<<<<< and >>>>>>> in the files:"
        yield from (f"  {safe(one)}" for one in merged.conflicts[:SOME])
