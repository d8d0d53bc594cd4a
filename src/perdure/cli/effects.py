"""`perdure effects`: the ledger, the newest effect first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perdure.cli.command import Shell, command

if TYPE_CHECKING:
    from perdure.domain.effect import Effect
    from perdure.store.move import Transaction

STATES = ("planned", "dispatched", "acknowledged", "failed", "refused", "compensated", "superseded")
HEADINGS = ("effect", "tool", "state", "attempts", "planned", "with~")


@command
@click.option("--in-doubt", is_flag=True, help="Only effects of which nobody can say what came of them.")
@click.option("--tool", metavar="NAME", help="Only effects of this tool.")
@click.option("--state", type=click.Choice(STATES), help="Only effects in this state.")
@click.option("--session", metavar="ID", help="Only effects of this session.")
@click.option("--since", metavar="SPAN", help='Only effects planned within this time: "30m", "2h", "7d".')
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="At most so many.")
def effects(
    shell: Shell,
    in_doubt: bool,
    tool: str | None,
    state: str | None,
    session: str | None,
    since: str | None,
    limit: int,
) -> None:
    """List effects: what was done outside, what is under way, and what is in doubt."""
    from perdure.cli.grid import grid
    from perdure.cli.opening import reading
    from perdure.store import effect
    from perdure.store import session as sessions

    with reading(shell) as tx:
        uid = None if session is None else sessions.find(tx, session).uid
        begin = 0 if since is None else tx.now - span_of(since)
        found = effect.listing(tx, uid=uid, state=state, tool=tool, in_doubt=in_doubt, since=begin, limit=limit + 1)
        if shell.json:
            for one in found[:limit]:
                shell.emit(shown(shell, one))
            return
        names = {one.session_uid: sessions.get(tx, one.session_uid).id for one in found[:limit]}
        rows = [[names[one.session_uid], *cells(tx, one)] for one in found[:limit]]
    if not rows:
        shell.say("No effect is in doubt." if in_doubt else "No effect matches.")
        return
    shell.say(*grid(("session", *HEADINGS), rows, width=shell.width))
    if len(found) > limit:
        shell.say("", f"There are more; these are the newest {limit}. --limit shows more.")
    shell.say(*_doubts(shell, found[:limit]))


def shown(shell: Shell, one: Effect) -> Effect:
    """An effect with its arguments, from the folder of large things where they are kept there."""
    from perdure.runtime.values import folder_of, opened
    from perdure.store.doctor import place_of

    return opened(one, folder_of(place_of(shell.store).folder, shell.settings.get("artifacts")))


def span_of(text: str) -> int:
    from perdure.runtime.durations import microseconds

    return microseconds(text)


def cells(tx: Transaction, one: Effect) -> list[str]:
    """An effect's cells in a table."""
    from perdure.cli.plain import arguments, safe, span
    from perdure.store.effect import of_effect

    attempts = len(of_effect(tx, one.session_uid, one.id))
    state = "in doubt" if is_in_doubt(one) else one.state
    planned = f"{span(tx.now - one.planned_at)} ago"
    return [safe(one.id), safe(one.tool), state, str(attempts), planned, arguments(one.intent)]


def is_in_doubt(one: Effect) -> bool:
    return one.state == "dispatched" and one.doubted_at is not None


def _doubts(shell: Shell, found: list[Effect]) -> list[str]:
    """What to type about the effects that wait for a person's word."""
    from perdure.cli.waiting import settling

    doubts = [one for one in found if is_in_doubt(one)]
    if not doubts:
        return []
    ways = [(shell.again(*way.words), way.meaning) for way in settling(doubts[0].id)]
    widest = max(len(text) for text, _ in ways)
    said = "1 effect is in doubt" if len(doubts) == 1 else f"{len(doubts)} effects are in doubt"
    return ["", f"{said}. Look at the outside system, then say what you found:"] + [
        f"  {text.ljust(widest)}  {meaning}" for text, meaning in ways
    ]
