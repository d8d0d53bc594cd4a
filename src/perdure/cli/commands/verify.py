"""`perdure verify`: whether the logs still say what they said, and the rows what the logs say."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
import msgspec

from perdure.cli.shell import Shell, command, is_terminal

if TYPE_CHECKING:
    from perdure.store.inspection.damage import DamagedRow
    from perdure.store.move import StoreTransaction

SOME = 20


class Verification(msgspec.Struct):
    """What was read and what did not fit."""

    sessions: int = 0
    events: int = 0
    damaged: list[str] = msgspec.field(default_factory=list)
    damaged_sessions: int = 0
    rows: list[DamagedRow] = msgspec.field(default_factory=list)


@command
@click.argument("id", required=False)
def verify(shell: Shell, id: str | None) -> int:
    """Check that every event is there, unchanged and in its place: one session's log, or all.

    Each event is bound to all before it. Every other row of a session is compared with what the log says. Exits with
    1 when something is damaged, and names the session, the table and the row; the other sessions are still checked.
    """
    from perdure.cli.store_access import read_store
    from perdure.cli.text.plain import count, safe

    with read_store(shell) as tx:
        checked = check(tx, id)
    if shell.json:
        shell.echo_json(checked)
    elif checked.damaged:
        shell.echo(*(safe(one) for one in checked.damaged[:SOME]))
        if len(checked.damaged) > SOME:
            shell.echo(f"and {len(checked.damaged) - SOME} more; --json lists all")
        whole = checked.sessions - checked.damaged_sessions
        shell.echo("", f"Damaged: {checked.damaged_sessions} of {count(checked.sessions, 'session')}.")
        shell.echo("Keep a copy of the store as it is, and restore a backup.")
        if whole:
            shell.echo(
                f"Intact: {whole}. `{shell.suggest('export', 'ID')}` writes a session that is intact as a bundle."
            )
    else:
        said = f"{count(checked.sessions, 'session')}, {count(checked.events, 'event')}"
        shell.echo(f"{said}: every row is as its log says, and every chain holds.")
    return 1 if checked.damaged else 0


def check(tx: StoreTransaction, id: str | None) -> Verification:
    """Read every session, or one, telling somebody who waits how far it is."""
    from perdure.store.inspection import damage
    from perdure.store.inspection.damage import DamagedRow
    from perdure.store.moves import session

    done = Verification()
    uids = damage.session_uids(tx) if id is None else iter([damage.find(tx, id) or session.find(tx, id).uid])
    for uid in uids:
        found = [uid] if isinstance(uid, DamagedRow) else damage.of_session(tx, uid)
        done.sessions, done.damaged_sessions = done.sessions + 1, done.damaged_sessions + bool(found)
        done.damaged += [str(one) for one in found]
        done.rows += found
        if not found and isinstance(uid, str):
            done.events += session.get(tx, uid).cursor
        if done.sessions % 500 == 0 and is_terminal(sys.stderr):
            click.echo(f"\r{done.sessions} sessions read", nl=False, err=True)
    if done.sessions >= 500 and is_terminal(sys.stderr):
        click.echo("", err=True)
    return done
