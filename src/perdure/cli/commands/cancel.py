"""`perdure cancel`: ask a session to stop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from perdure.cli.shell import Shell, by_option, command

if TYPE_CHECKING:
    from perdure.agent.files.worktree import FolderRemoval
    from perdure.domain.effect import Effect
    from perdure.runtime.runtime import Runtime, SessionView


@command
@click.argument("id")
@by_option
def cancel(shell: Shell, id: str) -> None:
    """Ask a session to stop, and its children with it.

    One that no process runs ends at once, unless an effect of it may be under way. Otherwise whoever has it stops
    between two acts; what was begun is seen to its end. The folder of a branch is removed with it, unless something in
    there is kept nowhere else.
    """
    from perdure.cli.commands.prune import stays
    from perdure.cli.store_access import run_with_runtime
    from perdure.cli.text.plain import safe

    asked, held, left, cleared = run_with_runtime(shell, lambda runtime: stopped(runtime, id, shell.by))
    if shell.json:
        shell.echo_json(asked)
    elif asked.status == "cancelled":
        shell.echo(f"Session {safe(asked.id)} is cancelled.")
        for one in cleared:
            shell.echo(*(stays(one) if one.kept else [f"Its folder {safe(one.folder)} is removed."]))
    elif held:
        holder = safe(asked.lease_holder or "")
        shell.echo(f"Session {safe(asked.id)} was asked to stop; {holder} has it and stops between acts.")
    else:
        shell.echo(f"Session {safe(asked.id)} was asked to stop. It ends when these effects are settled:", "")
        shell.echo(*unsettled(shell, asked, left))


def unsettled(shell: Shell, asked: SessionView, left: list[Effect]) -> Iterator[str]:
    """What keeps a session from ending, and what to do about it."""
    from perdure.cli.text.plain import safe
    from perdure.cli.text.waits import settle_suggestions

    for effect in left:
        doubted = effect.doubted_at is not None
        yield f"  {safe(effect.id)} {safe(effect.tool)}: {'in doubt' if doubted else 'it may be under way'}"
        yield from (
            f"    {shell.suggest(*way.words)}  {way.meaning}"
            for way in (settle_suggestions(effect.id) if doubted else ())
        )
    if any(effect.doubted_at is None for effect in left):
        yield f"`{shell.suggest('resume', asked.id, app=True)}` settles what may be under way, unless a worker does."


async def stopped(runtime: Runtime, name: str, by: str) -> tuple[SessionView, bool, list[Effect], list[FolderRemoval]]:
    """Ask for the end: whether a process has the session, which effects are left, what became of a branch's folder."""
    from perdure.control.branches.prune import clear_folders
    from perdure.store.moves import doubt

    asked = await runtime.cancel(name, by=by)
    left = await runtime.store.read(doubt.unfinished, asked.uid)
    ended = asked.forked_from is not None and asked.status == "cancelled"
    held = asked.lease_holder is not None and await runtime.requests.dead_holder(asked) is None
    return asked, held, left, await clear_folders(runtime, only=asked.uid) if ended else []
