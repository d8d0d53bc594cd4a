"""`perdure effects`: the ledger, the newest effect first."""

from __future__ import annotations

from typing import Any

import click

from perdure.agent import reach as reaches
from perdure.cli.shell import Shell, command
from perdure.cli.store_access import load_arguments, read_logged
from perdure.cli.text.effects import HEADINGS, doubt_lines, effect_cells
from perdure.cli.text.grid import grid
from perdure.domain.effect import Effect, EffectReach
from perdure.runtime.definitions.durations import microseconds
from perdure.store.move import StoreTransaction
from perdure.store.moves import effect
from perdure.store.moves import session as sessions

STATES = ("planned", "dispatched", "acknowledged", "failed", "refused", "compensated", "superseded")
REACHES = tuple(str(one) for one in EffectReach)
PAGE = 1000  # effects per read, for a filter that the database does not know


@command
@click.option("--in-doubt", is_flag=True, help="Only effects whose outcome is unknown.")
@click.option("--tool", metavar="NAME", help="Only effects of this tool.")
@click.option("--state", type=click.Choice(STATES), help="Only effects in this state.")
@click.option("--session", metavar="ID", help="Only effects of this session.")
@click.option("--since", metavar="DURATION", help='Only effects planned within this time: "30m", "2h", "7d".')
@click.option("--outside", is_flag=True, help="Only effects that left this machine, or may have left it.")
@click.option(
    "--target", metavar="TARGET", help='Only effects of a target: "branch:main", or a prefix: "path:deploy/*".'
)
@click.option("--reach", type=click.Choice(REACHES), help="Only effects of tools that reach this far.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="Maximum number to list.")
def effects(
    shell: Shell, in_doubt: bool, tool: str | None, state: str | None, session: str | None, since: str | None,
    outside: bool, target: str | None, reach: str | None, limit: int,
) -> None:  # fmt: skip
    """List effects: what was done outside, what is in progress, and what is in doubt.

    The column `outside` tells whether the effect left this machine: yes, no, or maybe if the record does not show it.
    Your own tools leave it unless they declare less (`reach`) or have the replay rule `pure` or `joint`.
    """
    with read_logged(shell, "transcript", lambda tx: (_uid(tx, session), "effects")) as tx:
        uid = _uid(tx, session)
        start = 0 if since is None else tx.now - microseconds(since)
        filters: dict[str, Any] = {"uid": uid, "state": state, "tool": tool, "in_doubt": in_doubt, "since": start}
        filters |= {"target": target, "reach": reach}
        found = (_outside if outside else effect.listing)(tx, limit=limit + 1, **filters)
        if shell.json:
            for one in found[:limit]:
                shell.echo_json(load_arguments(shell, one).to_dict() | {"outside": reaches.of(tx, one)})
            return
        names = {one.session_uid: sessions.get(tx, one.session_uid).id for one in found[:limit]}
        rows = [[names[one.session_uid], *effect_cells(tx, one)] for one in found[:limit]]
    if not rows:
        shell.echo("No effect is in doubt." if in_doubt else "No effect matches.")
        return
    shell.echo(*grid(("session", *HEADINGS), rows, width=shell.width))
    if len(found) > limit:
        shell.echo("", f"These are the newest {limit}. Use --limit to list more.")
    shell.echo(*doubt_lines(shell, found[:limit]))


def _uid(tx: StoreTransaction, session: str | None) -> str | None:
    return None if session is None else sessions.find(tx, session).uid


def _outside(tx: StoreTransaction, *, limit: int, **filters: Any) -> list[Effect]:
    """Effects that left the machine or may have, the newest first."""
    found: list[Effect] = []
    before: Effect | None = None
    while len(found) < limit and (page := effect.listing(tx, before=before, limit=PAGE, **filters)):
        found += [one for one in page if reaches.of(tx, one) is not reaches.Reach.NO]
        before = page[-1]
    return found[:limit]
