"""Moves and reads of queues. A queue needs no row: without one it has no limits.

    set_limits    changes limits, pauses or resumes claims, closes or opens the queue for new sessions
    lock          the row of a queue, created if it is missing: one transaction at a time decides about that queue

A limit holds from the next claim or start on. It takes no session away that runs already.
"""

from __future__ import annotations

from typing import Any

from perdure.domain.queue import Queue, QueueView
from perdure.domain.record import check_columns
from perdure.errors import ConfigError, IllegalMove
from perdure.ids import check_name, check_text
from perdure.store.move import StoreTransaction, plain_move
from perdure.store.moves import control_log, meta
from perdure.store.topics import QUEUES

LIMITS = frozenset({"concurrency", "per_key", "per_worker", "max_depth", "rate_count", "rate_period"})
STATES = {"paused": "paused_at", "closed": "closed_at"}
SMALLEST = {"concurrency": 0}  # a queue in which nothing runs; every other limit is at least 1
MOST_WAITING = 20_000  # waiting sessions that a list counts, in all queues together
SINCE = 8  # the oldest schema whose workers keep to limits
SETTINGS = (*sorted(LIMITS), *sorted(STATES.values()))
SHOWN = frozenset(Queue.columns()) - {"rate_at"}


@plain_move
def set_limits(tx: StoreTransaction, /, name: str, by: str, **changes: Any) -> Queue:
    """Change the settings of a queue; what is not named stays. None removes a limit.

    `rate_count` and `rate_period` are given together. `paused` and `closed` are true or false. A change to what is set
    already changes nothing.
    """
    check_text("The name of who changes the queue", by)
    _check(changes)
    if int(meta.get(tx, "compatible_from") or 0) < SINCE:
        raise IllegalMove(
            f"Workers of an older version may run here, and would ignore the limits of the queue {name}.",
            hint="Stop them, then run `perdure migrate`.",
        )
    was = lock(tx, name, by)
    columns = was.to_dict() | {key: value for key, value in changes.items() if key in LIMITS}
    for state, column in STATES.items():
        if state in changes and changes[state] != (columns[column] is not None):
            columns[column] = tx.now if changes[state] else None
    if columns["rate_period"] is None:
        columns["rate_at"] = None
    elif was.rate_at is not None:  # what is used up stays used up, for one new period at most
        columns["rate_at"] = min(was.rate_at, tx.now + columns["rate_period"])
    if columns != was.to_dict():
        columns |= {"version": was.version + 1, "by": by, "now": tx.now}
        del columns["updated_by"], columns["updated_at"]
        tx.run("queue.update", **columns)
        control_log.append(tx, "queue.changed", by, {"queue": name} | {key: columns[key] for key in SETTINGS})
        tx.wake(name)
        tx.wake_service(QUEUES)
    return lock(tx, name, by)


def _check(changes: dict[str, Any]) -> None:
    limits = {key: value for key, value in changes.items() if key not in STATES}
    check_columns(Queue, limits, LIMITS)
    for key, value in limits.items():
        if value is not None and value < SMALLEST.get(key, 1):
            raise ConfigError(f"The queue's {key} must be {SMALLEST.get(key, 1)} or more, not {value}.")
    if ("rate_count" in changes) != ("rate_period" in changes):
        raise ConfigError("A rate has a count and a period.", hint='Write it as "10/1m".')
    if (changes.get("rate_count") is None) != (changes.get("rate_period") is None):
        raise ConfigError("A rate has a count and a period.", hint='Write it as "10/1m".')


def lock(tx: StoreTransaction, name: str, by: str) -> Queue:
    """Lock the row of a queue until the transaction ends; it is created if it is missing."""
    row = tx.one("queue.lock", name=check_name("The queue", name))
    if row is None:
        tx.run("queue.insert", name=name, by=by, now=tx.now)
        row = tx.one("queue.lock", name=name)
    return Queue.from_row(row or ())


def get(tx: StoreTransaction, name: str) -> Queue | None:
    """A queue that has settings; None: it has no limits."""
    row = tx.one("queue.get", name=name)
    return Queue.from_row(row) if row else None


def depth(tx: StoreTransaction, name: str, most: int) -> int:
    """How many sessions of a queue are ready, counted up to `most`."""
    row = tx.one("queue.depth", queue=name, most=most)
    return int(row[0]) if row else 0


def listing(tx: StoreTransaction, *, limit: int = 1000) -> list[QueueView]:
    """The queues that have settings or sessions, with the numbers of their sessions, by name."""
    found: dict[str, dict[str, Any]] = {}
    for row in tx.all("queue.list", limit=limit):
        shown = {key: value for key, value in Queue.from_row(row).to_dict().items() if key in SHOWN}
        found[shown["name"]] = shown
    for name, what, number in tx.all("queue.count", most=MOST_WAITING):
        counted = found.setdefault(name, {"name": name})
        counted[what] = counted.get(what, 0) + number
    for name, counted in found.items():
        if counted.get("ready"):
            counted["oldest_ready_at"] = (tx.one("queue.oldest_ready", queue=name) or (None,))[0]
    return [QueueView(**found[name]) for name in sorted(found)[:limit]]
