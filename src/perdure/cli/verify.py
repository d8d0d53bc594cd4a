"""`perdure verify`: whether the logs still say what they said."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
import msgspec

from perdure.cli.command import Shell, command, is_terminal

if TYPE_CHECKING:
    from perdure.store.move import Transaction

SOME = 20


class Verified(msgspec.Struct):
    """What was read and what did not fit."""

    sessions: int
    events: int
    damaged: list[str]


@command
@click.argument("id", required=False)
def verify(shell: Shell, id: str | None) -> int:
    """Check that every event is there, unchanged and in its place: one session's log, or all.

    Each event is bound to all before it. Exits with 1 when a log is damaged, and says where.
    """
    from perdure.cli.opening import reading
    from perdure.store import session

    with reading(shell) as tx:
        uids = iter([session.find(tx, id).uid]) if id is not None else everyone(tx)
        checked = check(tx, uids)
    if shell.json:
        shell.emit(checked)
    elif checked.damaged:
        shell.say(*checked.damaged[:SOME])
        if len(checked.damaged) > SOME:
            shell.say(f"and {len(checked.damaged) - SOME} more; --json lists all")
        shell.say("", f"{len(checked.damaged)} of {checked.sessions} logs are damaged.")
        shell.say(f"Keep the store as it is, run `{shell.again('doctor', '--deep')}`, and restore from a backup.")
    else:
        from perdure.cli.plain import count

        said = f"{count(checked.sessions, 'session')}, {count(checked.events, 'event')}"
        shell.say(f"{said}: every chain holds.")
    return 1 if checked.damaged else 0


def check(tx: Transaction, uids: Iterator[str]) -> Verified:
    """Read every log, telling somebody who waits how far it is."""
    from perdure.errors import Damaged
    from perdure.store import event

    done = Verified(0, 0, [])
    for uid in uids:
        done.sessions += 1
        try:
            done.events += event.verify(tx, uid).cursor
        except Damaged as error:
            done.damaged.append(error.message)
        if done.sessions % 500 == 0 and is_terminal(sys.stderr):
            click.echo(f"\r{done.sessions} sessions read", nl=False, err=True)
    if done.sessions >= 500 and is_terminal(sys.stderr):
        click.echo("", err=True)
    return done


def everyone(tx: Transaction) -> Iterator[str]:
    from perdure.store import damage

    yield from damage.session_uids(tx)
