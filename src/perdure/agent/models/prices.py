"""Prices in dollars per million tokens, by the name of the model. A model that is not listed has no known price."""

from __future__ import annotations

import re
from typing import NamedTuple

from perdure.agent.model import Usage


class Price(NamedTuple):
    """Dollars per million tokens, which is millionths of a dollar per token."""

    fresh: float
    read: float  # from the provider's cache
    written: float  # into it
    out: float


def _claude(fresh: float, out: float, read: float | None = None) -> Price:
    return Price(fresh, fresh / 10 if read is None else read, fresh * 1.25, out)


def _gpt(fresh: float, read: float, out: float) -> Price:
    return Price(fresh, read, fresh, out)


PRICES = {
    **dict.fromkeys(("claude-opus-4-5", "claude-opus-4-6", "claude-opus-4-7", "claude-opus-4-8"), _claude(5, 25)),
    "claude-fable-5-1": _claude(10, 50, read=0.25),
    "claude-fable-5": _claude(10, 50),
    "claude-opus-5-5": _claude(4, 20, read=0.2),
    "claude-opus-5": _claude(5, 25),
    **dict.fromkeys(("claude-opus-4", "claude-opus-4-0", "claude-opus-4-1", "claude-3-opus"), _claude(15, 75)),
    **dict.fromkeys(("claude-sonnet-4", "claude-sonnet-4-0", "claude-sonnet-4-5", "claude-sonnet-4-6"), _claude(3, 15)),
    **dict.fromkeys(("claude-3-5-sonnet", "claude-3-7-sonnet"), _claude(3, 15)),
    **dict.fromkeys(("claude-sonnet-5", "claude-sonnet-5-5"), _claude(2, 10)),
    "claude-haiku-4-5": _claude(1, 5),
    "claude-3-5-haiku": _claude(0.8, 4),
    "gpt-5.4": _gpt(2.5, 0.25, 15),
    "gpt-5.4-mini": _gpt(0.75, 0.075, 4.5),
    **dict.fromkeys(("gpt-5.2", "gpt-5.2-codex", "gpt-5.3-codex"), _gpt(1.75, 0.175, 14)),
    **dict.fromkeys(("gpt-5", "gpt-5-codex", "gpt-5.1", "gpt-5.1-codex"), _gpt(1.25, 0.125, 10)),
    "gpt-5-mini": _gpt(0.25, 0.025, 2),
    "gpt-5-nano": _gpt(0.05, 0.005, 0.4),
    "gpt-4.1": _gpt(2, 0.5, 8),
    "gpt-4.1-mini": _gpt(0.4, 0.1, 1.6),
    "gpt-4.1-nano": _gpt(0.1, 0.025, 0.4),
    "gpt-4o": _gpt(2.5, 1.25, 10),
    "gpt-4o-mini": _gpt(0.15, 0.075, 0.6),
    "o3": _gpt(2, 0.5, 8),
    "o3-mini": _gpt(1.1, 0.55, 4.4),
    "o4-mini": _gpt(1.1, 0.275, 4.4),
}

_DATED = re.compile(r"-latest$|[-@]\d{8}$|-\d{4}-\d\d-\d\d$")  # suffixes of a name that do not change the price


def price_of(model: str) -> Price | None:
    """The price of a model, or None if it is unknown. A similar name is a different model."""
    return PRICES.get(model) or PRICES.get(_DATED.sub("", model))


def priced(model: str, *, fresh: int, read: int = 0, written: int = 0, out: int = 0) -> Usage:
    """The usage of a call. Tokens read from a cache or written to it count as input tokens."""
    price, tokens_in = price_of(model), fresh + read + written
    if price is None:
        return Usage(tokens_in, out, 0, priced=False)
    cost = fresh * price.fresh + read * price.read + written * price.written + out * price.out
    return Usage(tokens_in, out, round(cost))


def count(value: object) -> int:
    """A number of tokens that a server reported; 0 if it is not a valid count."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 40 else 0
