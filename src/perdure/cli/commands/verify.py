"""`perdure verify`: whether the logs are unchanged, and whether the rows agree with them."""

from __future__ import annotations

import sys

import click

from perdure.cli.shell import Shell, command, is_terminal
from perdure.cli.store_access import read_store, run_with_runtime
from perdure.cli.text.plain import count, safe
from perdure.config import is_service
from perdure.control.verification import verify_sessions

SHOWN = 20
STEP = 500  # sessions between two progress messages


@command
@click.argument("id", required=False)
def verify(shell: Shell, id: str | None) -> int:
    """Check that the log of one session, or of all, is complete and unchanged.

    Each event is chained to all events before it. Every other row of a session is compared with the log. Exits with 1
    if something is damaged, and names the session, the table and the row; the other sessions are still checked.
    """
    if is_service(shell.store):
        checked = run_with_runtime(shell, lambda runtime: runtime.verify(id))
    else:
        with read_store(shell) as tx:
            checked = verify_sessions(tx, id, show_progress)
    if checked.sessions >= STEP and is_terminal(sys.stderr):
        click.echo("", err=True)
    if shell.json:
        shell.echo_json(checked)
    elif checked.damaged:
        shell.echo(*(safe(one) for one in checked.damaged[:SHOWN]))
        if len(checked.damaged) > SHOWN:
            shell.echo(f"and {len(checked.damaged) - SHOWN} more; --json lists all")
        intact = checked.sessions - checked.damaged_sessions
        shell.echo("", f"Damaged: {checked.damaged_sessions} of {count(checked.sessions, 'session')}.")
        shell.echo("Keep a copy of the store as it is, and restore a backup.")
        if intact:
            shell.echo(f"Intact: {intact}. `{shell.suggest('export', 'ID')}` exports an intact session as a bundle.")
    else:
        numbers = f"{count(checked.sessions, 'session')}, {count(checked.events, 'event')}"
        shell.echo(f"{numbers}: all rows match their logs, and all chains are intact.")
    return 1 if checked.damaged else 0


def show_progress(sessions: int) -> None:
    if sessions % STEP == 0 and is_terminal(sys.stderr):
        click.echo(f"\r{sessions} sessions read", nl=False, err=True)
