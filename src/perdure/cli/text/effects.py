"""Effects as rows of a table, and what to type about those in doubt."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.cli.shell import Shell
from perdure.cli.text.plain import arguments, safe, short
from perdure.cli.text.waits import settle_suggestions
from perdure.clock import span
from perdure.domain.effect import Attempt, Effect
from perdure.store.move import StoreTransaction
from perdure.store.moves.attempt import attempts_of

HEADINGS = ("effect", "tool", "state", "outside", "attempts", "planned", "with~", "reference~")


def effect_cells(tx: StoreTransaction, one: Effect) -> list[str]:
    """The cells of one effect."""
    from perdure.agent import reach  # a session without effects does without it

    attempts = attempts_of(tx, one.session_uid, one.id)
    state = "in doubt" if is_in_doubt(one) else "overdue" if is_overdue(one, attempts, tx.now) else one.state
    planned = f"{span(tx.now - one.planned_at)} ago"
    return [
        safe(one.id), safe(one.tool), state, reach.of(tx, one), str(len(attempts)), planned, arguments(one.intent),
        short(one.reference or progress(attempts, tx.now)),
    ]  # fmt: skip


def progress(attempts: Sequence[Attempt], now: int) -> str:
    """What the tool of the last attempt reported, while that attempt runs."""
    last = attempts[-1] if attempts else None
    if last is None or last.heartbeat_at is None or last.ended_at is not None or last.outcome is not None:
        return ""
    return f"{safe(last.progress or 'heartbeat')}, {span(now - last.heartbeat_at)} ago"


def is_overdue(one: Effect, attempts: list[Attempt], now: int) -> bool:
    """Whether the deadline of the last attempt has passed without a known end."""
    if one.state != "dispatched" or not attempts:
        return False
    last = attempts[-1]
    return last.ended_at is None and last.deadline_at is not None and last.deadline_at < now


def is_in_doubt(one: Effect) -> bool:
    return one.state == "dispatched" and one.doubted_at is not None


def doubt_lines(shell: Shell, found: list[Effect]) -> list[str]:
    """What to type about the effects in doubt."""
    doubts = [one for one in found if is_in_doubt(one)]
    if not doubts:
        return []
    commands = [
        (shell.suggest(*one.words, app=one.app), one.meaning)
        for one in settle_suggestions(doubts[0].id, doubts[0].tool)
    ]
    widest = max(len(text) for text, _ in commands)
    how_many = "1 effect is in doubt" if len(doubts) == 1 else f"{len(doubts)} effects are in doubt"
    return ["", f"{how_many}. Check the outside system, then record what you found:"] + [
        f"  {text.ljust(widest)}  {meaning}" for text, meaning in commands
    ]
