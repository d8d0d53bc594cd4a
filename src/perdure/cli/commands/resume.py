"""`perdure resume`: what would be done with each unsettled effect, and then doing it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from perdure.cli.shell import Shell, by_option, command

if TYPE_CHECKING:
    from perdure.domain.session import SessionRecord
    from perdure.runtime.recovery.plan import RecoveryStep
    from perdure.runtime.runtime import Runtime, SessionView
    from perdure.store.move import StoreTransaction

HEADINGS = ("effect", "tool", "state", "attempts", "what is done", "not before")
WORDS = {"ask": "ask a person", "probe": "ask its probe"}
WIDE = 150  # columns from which the reason stands in the same line


@command
@click.argument("id", required=False)
@click.option("--last", is_flag=True, help="The session that moved last and has not ended.")
@click.option("--plan", is_flag=True, help="Only show what would be done.")
@by_option
def resume(shell: Shell, id: str | None, last: bool, plan: bool) -> int:
    """Go on with a session after a crash, a pause or an answer.

    Shows first what becomes of each unsettled effect, and why. A pause is over with it. Exits with 3 when only a person
    can go on, and says what to type; with 4 when another process has the session.
    """
    from perdure.cli.live.local_run import check_not_sealed, move
    from perdure.cli.store_access import describe_holder, presences, read_store
    from perdure.domain.session import TERMINAL
    from perdure.errors import ConfigError
    from perdure.store.moves import session

    if (id is None) != last:
        raise ConfigError("Say which session: its id, or --last.", hint=f"`{shell.suggest('ls')}` lists them.")
    shell.load()
    with read_store(shell) as tx:
        found = newest(tx) if id is None else session.find(tx, id)
        check_not_sealed(tx, found)
        ended = found.status in TERMINAL
        alive = False
        if not shell.json and found.lease_holder is not None:
            alive, said = describe_holder(tx, presences(shell, tx), found)
            shell.echo(said)
    if plan:
        if alive:
            shell.echo("If it died now:")
        return show_plan(shell, found, ended)

    async def begin(runtime: Runtime) -> SessionView:
        if not shell.json and not ended and not alive:
            shell.echo(*table(shell, await runtime.recovery_plan(found.uid), runtime.store.clock.now()))
        return await runtime.resume(found.uid)

    return move(shell, begin)


def show_plan(shell: Shell, found: SessionRecord, ended: bool) -> int:
    """What would be done, and nothing else."""
    from perdure.cli.store_access import run_with_runtime

    async def look(runtime: Runtime) -> tuple[list[RecoveryStep], int]:
        return await runtime.recovery_plan(found.uid), runtime.store.clock.now()

    planned, now = run_with_runtime(shell, look)
    if shell.json:
        for one in planned:
            shell.echo_json(one)
    elif ended:
        shell.echo(f"Session {found.id} is {found.status}; there is nothing to do.")
    else:
        shell.echo(*table(shell, planned, now), "")
        shell.echo(f"Nothing was done. `{shell.suggest('resume', found.id, app=True)}` does it.")
    return 0


def newest(tx: StoreTransaction) -> SessionRecord:
    """The session that moved last among those that have not ended; a child goes on with its parent."""
    from perdure.errors import NotFound
    from perdure.store.moves import session

    found = [one for status in ("ready", "running", "waiting") for one in session.page(tx, status=status)]
    own = [one for one in found if one.parent_uid is None and one.sealed_at is None]
    if not own:
        raise NotFound("Every session has ended, or goes on elsewhere.", hint="`perdure ls` lists them.")
    return max(own, key=lambda one: (one.updated_at, one.uid))


def table(shell: Shell, planned: list[RecoveryStep], now: int) -> Iterator[str]:
    """The recovery table; where a terminal is too narrow for the reasons, they stand below it."""
    from perdure.cli.text.grid import grid
    from perdure.cli.text.plain import safe, span
    from perdure.clock import format_time

    if not planned:
        yield "No effect is unsettled: nothing is in doubt, and the program goes on from its records."
        return
    rows, reasons = [], []
    for one in planned:
        later = one.not_before is not None and one.not_before > now
        when = f"{format_time(one.not_before or 0)} (in {span((one.not_before or 0) - now)})" if later else "at once"
        rows.append(
            [
                safe(one.effect_id),
                safe(one.tool),
                one.state,
                str(one.attempts),
                safe(WORDS.get(one.action, one.action)),
                when,
            ]
        )
        reasons.append(safe(one.why))
    if shell.width >= WIDE:
        yield from grid((*HEADINGS, "why"), [[*row, why] for row, why in zip(rows, reasons, strict=True)], width=WIDE)
    else:
        yield from grid(HEADINGS, rows, width=shell.width)
        yield ""
        yield from (f"{row[0]}: {why}" for row, why in zip(rows, reasons, strict=True))
