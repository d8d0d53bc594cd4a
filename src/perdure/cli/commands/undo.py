"""`perdure undo`: undo an effect that was done."""

from __future__ import annotations

import click

from perdure.cli.shell import Shell, by_option, command
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.waits import continue_line, root_session_id
from perdure.domain.effect import Effect
from perdure.runtime.runtime import Runtime
from perdure.store.move import StoreTransaction
from perdure.store.moves import effect as effects
from perdure.store.moves import session


@command
@click.argument("effect")
@click.option("--because", metavar="TEXT", required=True, help="The reason, recorded in the log.")
@by_option
def undo(shell: Shell, effect: str, because: str) -> int:
    """Undo an effect with the undo function of its tool.

    The program gets to know of it when it runs again. Effects of a session that has ended cannot be undone.
    """
    shell.load()

    async def work(runtime: Runtime) -> tuple[Effect, str, str]:
        id, name, root = await runtime.store.read(_find, effect)
        return await runtime.undo(id, by=shell.by, because=because), name, root

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


def _find(tx: StoreTransaction, id: str) -> tuple[str, str, str]:
    """The id of the effect, of its session, and of the session to resume."""
    found = effects.find(tx, id)
    return found.id, session.get(tx, found.session_uid).id, root_session_id(tx, found.session_uid)
