"""What a session used, over time: tokens and cost after each call of its model, as lines and as a table.

read      the last events of the session; what was used before them is where the lines begin
line      the sum after each call, over the time of the calls; drawn in percent, so that it fits every screen
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.domain.event import Event
from perdure.domain.session import SessionRecord
from perdure.store.move import StoreTransaction
from perdure.store.moves import event

READ = 2000  # events
HEIGHT = 120
ROOM = 8  # above the highest point


class UsagePoint(msgspec.Struct, frozen=True):
    """One call of a model, and the sums after it."""

    number: int
    at: int
    tokens_in: int
    tokens_out: int
    cost_micros: int
    all_tokens: int
    all_cost: int


class UsageLine(msgspec.Struct, frozen=True):
    """A sum over time: segments as `x1, y1, x2, y2`, across in percent."""

    segments: list[tuple[float, float, float, float]]
    most: int


class UsageHistory(msgspec.Struct, frozen=True):
    """The calls, the newest first, and what is drawn of them."""

    points: list[UsagePoint]
    tokens: UsageLine
    cost: UsageLine
    is_whole: bool


def history(tx: StoreTransaction, session: SessionRecord) -> UsageHistory:
    """What a session used in its last events."""
    lines = event.last(tx, session.uid, limit=READ)
    used = [(one, found) for one in lines if (found := _used(one)) is not None]
    tokens = session.tokens_in + session.tokens_out - sum(sum(found[:2]) for _, found in used)
    cost = session.cost_micros - sum(found[2] for _, found in used)
    tokens, cost = max(0, tokens), max(0, cost)
    start, points = (tokens, cost), []
    for one, (given, got, price) in used:
        tokens, cost = tokens + given + got, cost + price
        points.append(UsagePoint(one.number, one.at, given, got, price, tokens, cost))
    return UsageHistory(
        points[::-1], _line([(one.at, one.all_tokens) for one in points], start[0]),
        _line([(one.at, one.all_cost) for one in points], start[1]), not lines or lines[0].number == 1,
    )  # fmt: skip


def _used(one: Event) -> tuple[int, int, int] | None:
    """The tokens in and out and the cost that an event reports."""
    body: dict[str, Any] = one.body if isinstance(one.body, dict) else {}
    usage = body.get("usage")
    if one.kind == "message" and isinstance(usage, dict) and body.get("role") == "assistant":
        found = [usage.get(name) for name in ("tokens_in", "tokens_out", "cost_micros")]
    elif one.kind == "note" and isinstance(usage, list) and len(usage) == 3:
        found = usage
    else:
        return None
    given, got, price = (one if isinstance(one, int) else 0 for one in found)
    return (given, got, price) if given or got or price else None


def _line(sums: list[tuple[int, int]], start: int) -> UsageLine:
    """Steps: a sum stays as it was until the next call."""
    if not sums:
        return UsageLine([], 0)
    first, last, most = sums[0][0], sums[-1][0], sums[-1][1] or 1
    segments = []
    x, y = 0.0, _height(start, most)
    for at, total in sums:
        to = 100 * (at - first) / (last - first) if last > first else 100.0
        up = _height(total, most)
        segments += [(x, y, to, y), (to, y, to, up)]
        x, y = to, up
    return UsageLine([tuple(round(part, 2) for part in one) for one in segments], sums[-1][1])  # type: ignore[misc]


def _height(value: int, most: int) -> float:
    return HEIGHT - (HEIGHT - ROOM) * value / most
