"""`perdure cancel`: ask a session to stop."""

from __future__ import annotations

from collections.abc import Iterator

import click

from perdure.cli.shell import Shell, by_option, command
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.branches import kept_folder_lines
from perdure.cli.text.plain import safe
from perdure.cli.text.waits import settle_suggestions
from perdure.config import is_service
from perdure.control.cancellation import Cancellation, cancel_session
from perdure.domain.effect import Effect
from perdure.runtime.runtime import Runtime, SessionView


@command
@click.argument("id")
@click.option("--now", is_flag=True, help="Stop the model or the command that it runs, as `perdure interrupt` does.")
@by_option
def cancel(shell: Shell, id: str, now: bool) -> None:
    """Cancel a session and its children.

    A session that no process runs ends immediately, unless one of its effects may be in progress. Otherwise the
    process that runs it stops between two steps; an effect that was dispatched is awaited, or with --now stopped. The
    folder of a branch is removed with it, unless it contains something that is stored nowhere else.
    """
    done = run_with_runtime(shell, lambda runtime: _cancel(shell, runtime, id, now=now))
    found = done.session
    if shell.json:
        shell.echo_json(found)
    elif found.status == "cancelled":
        shell.echo(f"Session {safe(found.id)} is cancelled.")
        for one in done.folders:
            shell.echo(*(kept_folder_lines(one) if one.kept else [f"Its folder {safe(one.folder)} is removed."]))
    elif done.is_held:
        holder = safe(found.lease_holder or "")
        shell.echo(f"Cancel requested for session {safe(found.id)}; {holder} runs it and stops after the current step.")
    else:
        shell.echo(f"Cancel requested for session {safe(found.id)}. It ends when these effects are settled:", "")
        shell.echo(*unsettled_lines(shell, found, done.unsettled))


async def _cancel(shell: Shell, runtime: Runtime, id: str, *, now: bool) -> Cancellation:
    if not is_service(shell.store):
        return await cancel_session(runtime, id, by=shell.by, now=now)
    from perdure.cli.remote import sessions

    return await sessions.cancel(runtime, id, by=shell.by, now=now)


def unsettled_lines(shell: Shell, found: SessionView, unsettled: list[Effect]) -> Iterator[str]:
    """The effects that keep a session from ending, and what to do about each."""
    for effect in unsettled:
        doubted = effect.doubted_at is not None
        yield f"  {safe(effect.id)} {safe(effect.tool)}: {'in doubt' if doubted else 'it may be in progress'}"
        for one in settle_suggestions(effect.id, effect.tool) if doubted else ():
            yield f"    {shell.suggest(*one.words, app=one.app)}  {one.meaning}"
    if any(effect.doubted_at is None for effect in unsettled):
        resume = shell.suggest("resume", found.id, app=True)
        yield f"Run `{resume}` to settle what may be in progress, unless a worker is running."
