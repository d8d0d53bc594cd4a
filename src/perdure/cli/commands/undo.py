"""`perdure undo`: undo an effect that was done."""

from __future__ import annotations

import click

from perdure.cli.options.of_session import session_option
from perdure.cli.shell import Shell, by_option, command
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.waits import continue_line, root_session
from perdure.domain.effect import Effect
from perdure.domain.session import SessionRecord
from perdure.runtime.runtime import Runtime
from perdure.store.move import StoreTransaction
from perdure.store.moves import effect as effects
from perdure.store.moves import session as sessions


@command
@click.argument("effect")
@click.option("--because", metavar="TEXT", required=True, help="The reason, recorded in the log.")
@session_option
@by_option
def undo(shell: Shell, effect: str, because: str, session: str | None) -> int:
    """Undo an effect with the undo function of its tool.

    The program gets to know of it when it runs again. Effects of a session that has ended cannot be undone.
    """
    shell.load()

    async def work(runtime: Runtime) -> tuple[Effect, str, SessionRecord]:
        found, name, root = await runtime.store.read(_find, effect, of=session)
        done = await runtime.undo(found.id, session=found.session_uid, by=shell.by, because=because)
        return done, name, root

    done, name, root = run_with_runtime(shell, work)
    if shell.json:
        shell.echo_json(done)
    elif done.state == "compensated":
        shell.echo(f"{done.tool} {done.id} of session {name} was undone.", continue_line(shell, root))
    elif done.undo_requested_at is not None:
        shell.echo(f"{done.tool} {done.id} is not undone yet: see `{shell.suggest('show', name)}`.")
    else:
        shell.echo(f"{done.tool} {done.id} could not be undone: see `{shell.suggest('show', name)}`.")
    return 0 if done.state == "compensated" else 3 if done.undo_requested_at is not None else 1


def _find(tx: StoreTransaction, id: str, of: str | None) -> tuple[Effect, str, SessionRecord]:
    """The effect, the id of its session, and the session to resume."""
    found = effects.find(tx, id, None if of is None else sessions.find(tx, of).uid)
    return found, sessions.get(tx, found.session_uid).id, root_session(tx, found.session_uid)
