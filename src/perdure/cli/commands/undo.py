"""`perdure undo`: take back an effect that was done."""

from __future__ import annotations

import click

from perdure.cli.shell import Shell, by_option, command


@command
@click.argument("effect")
@click.option("--because", metavar="TEXT", required=True, help="Why; it is kept in the log.")
@by_option
def undo(shell: Shell, effect: str, because: str) -> int:
    """Take back an effect that was done, by its tool's own undo.

    The program hears of it when it runs again. An effect of a session that has ended is not taken back.
    """
    from perdure.cli.store_access import read_store, run_with_runtime
    from perdure.cli.text.waits import root_session_id
    from perdure.store.moves import effect as effects
    from perdure.store.moves import session

    shell.load()
    with read_store(shell) as tx:
        found = effects.find(tx, effect)
        name, top = session.get(tx, found.session_uid).id, root_session_id(tx, found.session_uid)
    done = run_with_runtime(shell, lambda runtime: runtime.undo(found.id, by=shell.by, because=because))
    if shell.json:
        shell.echo_json(done)
    elif done.state == "compensated":
        shell.echo(f"{done.tool} {done.id} of session {name} was undone.")
        shell.echo(f"`{shell.suggest('resume', top, app=True)}` lets it go on, unless a worker does.")
    elif done.undo_requested_at is not None:
        shell.echo(f"{done.tool} {done.id} is asked to be undone, and is not yet: `{shell.suggest('show', name)}`.")
    else:
        shell.echo(f"{done.tool} {done.id} could not be undone: `{shell.suggest('show', name)}`.")
    return 0 if done.state == "compensated" else 3 if done.undo_requested_at is not None else 1
