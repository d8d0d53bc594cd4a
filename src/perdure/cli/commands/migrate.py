"""`perdure migrate`: the schema of the store."""

from __future__ import annotations

from perdure.cli.shell import Shell, command
from perdure.runtime.deploy.migration import migrate_store


@command
def migrate(shell: Shell) -> None:
    """Bring the store's schema up to date.

    A SQLite store is also migrated when it is next used; PostgreSQL only by this command. Workers may keep running. A
    migration that would break a running worker of an older version is not applied until that worker has stopped; then
    this command, or a running worker, applies it.
    """
    done = migrate_store(shell.store)
    if shell.json:
        shell.echo_json(done)
        return
    if done.rights_corrected:
        shell.echo("The roles in the database did not have their rights; now they do.")
    if done.before == done.after and not done.waits_for:
        shell.echo(
            f"The schema is at version {done.after}, the newest that this version of Perdure knows. Nothing to do."
        )
    else:
        was = f"was migrated from version {done.before} to" if done.before < done.after else "is at version"
        shell.echo(f"The schema {was} {done.after}.")
        if done.waits_for:
            shell.echo(
                f"Version {done.known} is applied when these workers of an older version have ended: "
                f"{', '.join(done.waits_for)}."
            )
