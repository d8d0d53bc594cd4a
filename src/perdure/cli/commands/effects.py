"""`perdure effects`: the ledger, the newest effect first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.cli.shell import Shell, command

if TYPE_CHECKING:
    from perdure.domain.effect import Attempt, Effect
    from perdure.store.move import StoreTransaction

STATES = ("planned", "dispatched", "acknowledged", "failed", "refused", "compensated", "superseded")
HEADINGS = ("effect", "tool", "state", "outside", "attempts", "planned", "with~", "reference~")
PAGE = 1000  # effects that are read at once by a filter that the database does not know


@command
@click.option("--in-doubt", is_flag=True, help="Only effects of which nobody can say what came of them.")
@click.option("--tool", metavar="NAME", help="Only effects of this tool.")
@click.option("--state", type=click.Choice(STATES), help="Only effects in this state.")
@click.option("--session", metavar="ID", help="Only effects of this session.")
@click.option("--since", metavar="SPAN", help='Only effects planned within this time: "30m", "2h", "7d".')
@click.option("--outside", is_flag=True, help="Only effects that left this machine, or may have left it.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="At most so many.")
def effects(
    shell: Shell,
    in_doubt: bool,
    tool: str | None,
    state: str | None,
    session: str | None,
    since: str | None,
    outside: bool,
    limit: int,
) -> None:
    """List effects: what was done outside, what is under way, and what is in doubt.

    The column `outside` says whether the effect left this machine: yes, no, or maybe where the record cannot tell. A
    tool of yours that is `pure` or `joint` did not; one with any other rule may have.
    """
    from perdure.agent import reach
    from perdure.cli.store_access import read_store
    from perdure.cli.text.grid import grid
    from perdure.store.moves import effect
    from perdure.store.moves import session as sessions

    with read_store(shell) as tx:
        uid = None if session is None else sessions.find(tx, session).uid
        begin = 0 if since is None else tx.now - span_of(since)
        asked: dict[str, Any] = {"uid": uid, "state": state, "tool": tool, "in_doubt": in_doubt, "since": begin}
        found = _beyond(tx, limit + 1, **asked) if outside else effect.listing(tx, limit=limit + 1, **asked)
        if shell.json:
            for one in found[:limit]:
                shell.echo_json(shown(shell, one).to_dict() | {"outside": reach.of(tx, one)})
            return
        names = {one.session_uid: sessions.get(tx, one.session_uid).id for one in found[:limit]}
        rows = [[names[one.session_uid], *cells(tx, one)] for one in found[:limit]]
    if not rows:
        shell.echo("No effect is in doubt." if in_doubt else "No effect matches.")
        return
    shell.echo(*grid(("session", *HEADINGS), rows, width=shell.width))
    if len(found) > limit:
        shell.echo("", f"There are more; these are the newest {limit}. --limit shows more.")
    shell.echo(*_doubts(shell, found[:limit]))


def _beyond(tx: StoreTransaction, limit: int, **asked: Any) -> list[Effect]:
    """Effects that left the machine or may have, the newest first."""
    from perdure.agent import reach
    from perdure.store.moves import effect

    found: list[Effect] = []
    before: Effect | None = None
    while len(found) < limit and (page := effect.listing(tx, before=before, limit=PAGE, **asked)):
        found += [one for one in page if reach.of(tx, one) is not reach.Reach.NO]
        before = page[-1]
    return found[:limit]


def shown(shell: Shell, one: Effect) -> Effect:
    """An effect with its arguments, from the folder of large things where they are kept there."""
    from perdure.runtime.run.large_values import folder_of, opened
    from perdure.store.inspection.read_access import locate_store

    return opened(one, folder_of(locate_store(shell.store).folder, shell.settings.get("artifacts")))


def span_of(text: str) -> int:
    from perdure.runtime.definitions.durations import microseconds

    return microseconds(text)


def cells(tx: StoreTransaction, one: Effect) -> list[str]:
    """An effect's cells in a table."""
    from perdure.agent import reach
    from perdure.cli.text.plain import arguments, safe, short, span
    from perdure.store.moves.attempt import attempts_of

    attempts = attempts_of(tx, one.session_uid, one.id)
    state = "in doubt" if is_in_doubt(one) else "overdue" if is_overdue(one, attempts, tx.now) else one.state
    planned = f"{span(tx.now - one.planned_at)} ago"
    return [
        safe(one.id),
        safe(one.tool),
        state,
        reach.of(tx, one),
        str(len(attempts)),
        planned,
        arguments(one.intent),
        short(one.reference or ""),
    ]


def is_overdue(one: Effect, attempts: list[Attempt], now: int) -> bool:
    """Whether its last attempt should have ended by now, and is not known to have ended."""
    if one.state != "dispatched" or not attempts:
        return False
    last = attempts[-1]
    return last.ended_at is None and last.deadline_at is not None and last.deadline_at < now


def is_in_doubt(one: Effect) -> bool:
    return one.state == "dispatched" and one.doubted_at is not None


def _doubts(shell: Shell, found: list[Effect]) -> list[str]:
    """What to type about the effects that wait for a person's word."""
    from perdure.cli.text.waits import settle_suggestions

    doubts = [one for one in found if is_in_doubt(one)]
    if not doubts:
        return []
    ways = [(shell.suggest(*way.words), way.meaning) for way in settle_suggestions(doubts[0].id)]
    widest = max(len(text) for text, _ in ways)
    said = "1 effect is in doubt" if len(doubts) == 1 else f"{len(doubts)} effects are in doubt"
    return ["", f"{said}. Look at the outside system, then say what you found:"] + [
        f"  {text.ljust(widest)}  {meaning}" for text, meaning in ways
    ]
