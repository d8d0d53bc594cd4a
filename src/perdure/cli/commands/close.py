"""`perdure close`: end an agent's session whose work is done."""

from __future__ import annotations

import click

from perdure.cli.shell import Shell, by_option, command
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.plain import safe, value


@command
@click.argument("id")
@by_option
def close(shell: Shell, id: str) -> None:
    """Close an agent's session that waits for the next message: it ends as done.

    Its result is the last answer. It is refused while an effect is unsettled, a message is unread, or the session waits
    for anything else; `perdure cancel` ends such a session. Its record stays.
    """
    closed = run_with_runtime(shell, lambda runtime: runtime.close_session(id, by=shell.by))
    if shell.json:
        shell.echo_json(closed)
    else:
        shell.echo(f"Session {safe(closed.id)} is closed. Its result: {value(closed.result)}")
