"""`perdure withdraw`: an approval is taken back before it is used."""

from __future__ import annotations

import click

from perdure.cli.options.of_session import session_option
from perdure.cli.shell import Shell, by_option, command


@command
@click.argument("id")
@click.option("--because", metavar="TEXT", required=True, help="The reason, which an agent's model is told.")
@session_option
@by_option
def withdraw(shell: Shell, id: str, because: str, session: str | None) -> None:
    """Withdraw an approval before its effect is dispatched.

    ID is the id of an approval. The effect is refused, and is not done. After the dispatch it is too late:
    `perdure undo` undoes an effect, if its tool can.
    """
    from perdure.cli.store_access import run_with_runtime
    from perdure.cli.text.plain import safe

    gone = run_with_runtime(shell, lambda runtime: runtime.withdraw(id, session=session, by=shell.by, because=because))
    if shell.json:
        shell.echo_json(gone)
        return
    shell.echo(f"{safe(gone.withdrawn_by or '')} withdrew approval {safe(gone.id)}: its effect is refused.")
