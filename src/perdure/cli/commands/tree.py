"""`perdure tree`: the processes that run a store."""

from __future__ import annotations

from perdure.cli.shell import Shell, command
from perdure.cli.store_access import read_store, worker_locks
from perdure.cli.text.processes import tree_lines
from perdure.config import is_service
from perdure.control.supervisor.overview import process_overview


@command
def tree(shell: Shell) -> None:
    """Show the processes that run a store, as their supervisors see them.

    What a dead supervisor left is shown as dead. A process on another machine whose state is not certain is shown as
    "cannot tell".
    """
    if is_service(shell.store):
        from perdure.cli.remote.access import read_tree

        found = read_tree(shell)
    else:
        with read_store(shell) as tx:
            found = process_overview(tx, worker_locks(shell, tx).life)
    if shell.json:
        shell.echo_json({"at": found.at, "processes": found.processes})
    else:
        shell.echo(*tree_lines(found))
