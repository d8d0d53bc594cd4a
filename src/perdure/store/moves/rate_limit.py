"""Limits of model providers, shared by all workers: requests and tokens in a minute.

    reserve    before a request: when it may be sent. The time is reserved, so that callers wait in order
    correct    after the answer: the tokens that were used, in place of the estimate
    block      the provider asked for a delay: all callers wait

A crash after `reserve` wastes the reservation and nothing else. So does a `reserve` that runs again because its commit
is unknown: later callers wait longer, and no limit is exceeded. A `correct` that runs again gives nothing back a second
time; only that could exceed a limit. Each limit is a generic cell rate algorithm (GCRA): a
row holds the time up to which its limit is used up, and no list of requests. A tenth of a limit may be used at once;
the rest is spread, so that no minute has more requests than the limit allows. Tokens may exceed theirs by one call,
because a call cannot be divided.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from perdure.clock import SECOND
from perdure.domain.rate_limit import RateLimit
from perdure.errors import ConfigError
from perdure.ids import check_name, check_text
from perdure.store.move import StoreTransaction, plain_move
from perdure.store.moves import control_log

MINUTE = 60 * SECOND
LONGEST = 3600 * SECOND  # how far ahead a reservation or a delay can be; bounds what a clock that is set back costs
MOST = 2**40
BY = "perdure"


class Reservation(msgspec.Struct):
    """When a request may be sent, and the limits that it counts for."""

    at: int
    names: tuple[str, ...] = ()
    tokens: int = 0
    is_returned: bool = False  # its unused tokens were given back, perhaps in a commit whose outcome is unknown


class Rate(NamedTuple):
    """A limit as an interval between two units, and how many units may come at once."""

    interval: int  # in millionths of a microsecond, because a token may take less than one
    burst: int

    @classmethod
    def of(cls, limit: int) -> Rate:
        burst = max(1, limit // 10)
        return cls(-(-MINUTE * SECOND // (limit - burst + 1)), burst)

    def takes(self, units: int) -> int:
        """The microseconds in which so many units become free."""
        return -(-self.interval * units // SECOND)

    def earliest(self, used_until: int, units: int) -> int:
        """When so many units may be used."""
        return used_until - self.takes(max(0, self.burst - units))


@plain_move
def reserve(tx: StoreTransaction, /, names: Sequence[str], tokens: int) -> Reservation:
    """Reserve a request of about so many tokens under every limit that has one of these names."""
    rows = [row for name in sorted(set(names)) if (row := _lock(tx, name)) is not None]
    at = tx.now
    for row in rows:
        at = max(at, min(row.blocked_until or 0, tx.now + LONGEST))
        for limit, used_until, units in _parts(row, tokens):
            at = max(at, min(Rate.of(limit).earliest(used_until, units), tx.now + LONGEST))
    for row in rows:
        used = [max(until, at) + Rate.of(limit).takes(units) for limit, until, units in _parts(row, tokens)]
        if used:
            _use(tx, row, [min(until, tx.now + 2 * LONGEST) for until in used])
    return Reservation(at, tuple(row.name for row in rows), tokens)


@plain_move
def correct(tx: StoreTransaction, /, made: Reservation, used: int) -> None:
    """Count the tokens that a request has used, in place of those that were estimated."""
    if used < made.tokens:
        if made.is_returned:
            return
        made.is_returned = True
    for name in made.names:
        row = _lock(tx, name)
        if row is not None and row.tokens is not None and row.tokens_at is not None:
            rate = Rate.of(row.tokens)
            at = row.tokens_at + rate.takes(max(0, used - made.tokens)) - rate.takes(max(0, made.tokens - used))
            at = max(0, min(at, tx.now + 2 * LONGEST))
            tx.run("rate_limit.use", name=name, requests_at=row.requests_at, tokens_at=at)


@plain_move
def block(tx: StoreTransaction, /, names: Sequence[str], until: int) -> None:
    """Let all callers wait, as the provider asked: under the first of these names that has a limit, or the first."""
    name = next((one for one in names if _lock(tx, one) is not None), names[0])
    tx.send("rate_limit.insert", name=name, by=BY, now=tx.now)
    tx.run("rate_limit.block", name=name, until=min(until, tx.now + LONGEST))


@plain_move
def set_limit(
    tx: StoreTransaction, /, name: str, by: str,
    requests: int | UnsetType | None = UNSET, tokens: int | UnsetType | None = UNSET,
) -> RateLimit:  # fmt: skip
    """Set the limit of a provider or of one of its models; what is UNSET stays. A limit of nothing is removed."""
    check_text("The name of who changes the limit", by)
    tx.send("rate_limit.insert", name=check_name("The name of the limit", name), by=by, now=tx.now)
    was = _lock(tx, name)
    assert was is not None
    requests = was.requests if isinstance(requests, UnsetType) else requests
    tokens = was.tokens if isinstance(tokens, UnsetType) else tokens
    for what, given in (("requests", requests), ("tokens", tokens)):
        if given is not None and (type(given) is not int or not 1 <= given <= MOST):
            raise ConfigError(f"The limit of {what} in a minute must be a number from 1 to {MOST}, not {given!r}.")
    used = [None if at is None else min(at, tx.now + MINUTE) for at in (was.requests_at, was.tokens_at)]
    columns = {"requests": requests, "tokens": tokens, "requests_at": used[0], "tokens_at": used[1]}
    if (requests, tokens) != (was.requests, was.tokens):
        said = {"rate_limit": name, "requests": requests, "tokens": tokens}
        control_log.append(tx, "rate_limit.changed", by, said)
    if requests is None and tokens is None:
        tx.run("rate_limit.delete", name=name)
        return RateLimit(name, None, None, None, None, None, by, tx.now)
    tx.run("rate_limit.update", name=name, by=by, now=tx.now, **columns)
    found = get(tx, name)
    assert found is not None
    return found


def get(tx: StoreTransaction, name: str) -> RateLimit | None:
    row = tx.one("rate_limit.get", name=name)
    return RateLimit.from_row(row) if row else None


def in_force(tx: StoreTransaction, names: Sequence[str]) -> list[RateLimit]:
    """The limits of these names that a request has to keep to now."""
    found = [row for name in names if (row := get(tx, name)) is not None]
    return [row for row in found if row.requests or row.tokens or (row.blocked_until or 0) > tx.now]


def listing(tx: StoreTransaction, *, limit: int = 1000) -> list[RateLimit]:
    """Every limit, by name."""
    return [RateLimit.from_row(row) for row in tx.all("rate_limit.list", limit=limit)]


def _lock(tx: StoreTransaction, name: str) -> RateLimit | None:
    row = tx.one("rate_limit.lock", name=name)
    return RateLimit.from_row(row) if row else None


def _parts(row: RateLimit, tokens: int) -> list[tuple[int, int, int]]:
    """Limit, the time until which it is used up, and the units of this request: of requests, then of tokens."""
    parts = [(row.requests, row.requests_at, 1), (row.tokens, row.tokens_at, tokens)]
    return [(limit, until or 0, units) for limit, until, units in parts if limit is not None]


def _use(tx: StoreTransaction, row: RateLimit, used: list[int]) -> None:
    requests_at = used[0] if row.requests is not None else row.requests_at
    tokens_at = used[-1] if row.tokens is not None else row.tokens_at
    tx.run("rate_limit.use", name=row.name, requests_at=requests_at, tokens_at=tokens_at)
