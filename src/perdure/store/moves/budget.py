"""Reads of what budgets limit. What was used is recorded elsewhere, in the commit of the call that used it.

A sum is read before a call and nothing is reserved, so a budget is exceeded at most by the calls that are in flight
when it is reached. A process that is killed during a call leaves no trace of it here, and nothing counts twice.
"""

from __future__ import annotations

from perdure.clock import SECOND
from perdure.domain.policy import Budget
from perdure.domain.session import SessionRecord
from perdure.store.move import StoreTransaction

DAY = 86_400 * SECOND
MICROS = 1_000_000
MOST_REACHES = 100
DAILY = ("day", "owner-day")


def limit_of(budget: Budget) -> int:
    """The limit in the unit that is counted: millionths of a dollar, microseconds, or a number."""
    return round(budget.limit * {"cost": MICROS, "time": SECOND}.get(budget.of, 1))


def used(tx: StoreTransaction, budget: Budget, session: SessionRecord) -> int:
    """How much of a budget is used, in the unit of `limit_of`."""
    if budget.of == "time":
        return max(0, tx.now - session.created_at)
    since = tx.now - tx.now % DAY if budget.per in DAILY else 0
    if budget.of == "effects":
        rows = _effects(tx, budget, session, since)
        return sum(number for reach, number in rows if not budget.reach or reach in budget.reach)
    turns, tokens, cost = _usage(tx, budget, session, since) or (0, 0, 0)
    return {"turns": turns, "tokens": tokens, "cost": cost}[budget.of]


def first_reached(
    tx: StoreTransaction, budgets: tuple[Budget, ...], session: SessionRecord
) -> tuple[Budget, int] | None:
    """The first of the budgets that is used up, with what was used."""
    for budget in budgets:
        if (now := used(tx, budget, session)) >= limit_of(budget):
            return budget, now
    return None


def next_day(now: int) -> int:
    """When the next day begins, in UTC."""
    return now - now % DAY + DAY


def _usage(tx: StoreTransaction, budget: Budget, session: SessionRecord, since: int) -> tuple[int, int, int] | None:
    if budget.per == "day":
        return tx.one("budget.usage", since=since)
    if budget.per == "session" or session.owner is None:
        return tx.one("budget.session_usage", uid=session.uid, since=since)
    return tx.one("budget.owner_usage", owner=session.owner, since=since)


def _effects(tx: StoreTransaction, budget: Budget, session: SessionRecord, since: int) -> list[tuple[str | None, int]]:
    if budget.per == "day":
        return tx.all("budget.effects", since=since, limit=MOST_REACHES)
    if budget.per == "session" or session.owner is None:
        return tx.all("budget.session_effects", uid=session.uid, since=since, limit=MOST_REACHES)
    return tx.all("budget.owner_effects", owner=session.owner, since=since, limit=MOST_REACHES)
