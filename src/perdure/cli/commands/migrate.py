"""`perdure migrate`: the store's schema, before and after."""

from __future__ import annotations

from perdure.cli.shell import Shell, command


@command
def migrate(shell: Shell) -> None:
    """Bring the store's schema up to date.

    A SQLite store is also migrated by the next use; PostgreSQL only by this command. Workers may go on meanwhile. A
    step that would break a worker of an older version is not taken while that worker lives.
    """
    from perdure.control.migration import bring_up_to_date

    done = bring_up_to_date(shell.store)
    if shell.json:
        shell.echo_json(done)
    elif done.before == done.after:
        shell.echo_rich(f"The schema is at {done.after}, the newest that this version knows. Nothing to do.")
    else:
        shell.echo_rich(f"The schema went from {done.before} to {done.after}.")
