"""A long history for audits, written in bulk with the moves of the store, and the truth about it.

A history is a row of sessions of a hundred events each (`story`). The last `recent` events happen since yesterday
(UTC), and everything before is older, so that a question about that time has an answer of the same size whatever the
length of the history.

The truth is what the generator decided to write, not what was read back: for each question the rows of that time, as
sets.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import Any

import msgspec

from perdure.clock import SECOND
from perdure.evaluation.audit.story import EVENTS, Story
from perdure.store.move import Move, StoreTransaction
from perdure.store.store import Store

TOGETHER = 25  # sessions in one transaction
APART = 600 * SECOND  # old sessions
DAY = 24 * 3600 * SECOND


class AuditHistory(msgspec.Struct, frozen=True, kw_only=True):
    """What was written. `truth` has the answers about the time from `since` to `until`, by question."""

    events: int
    sessions: int
    since: int
    until: int
    truth: dict[str, set[tuple[Any, ...]]]


def write_history(store: Store, *, events: int, recent: int = 10_000) -> AuditHistory:
    """Write about so many events, `recent` of them since yesterday, and return the truth about that time."""
    total, late = max(events // EVENTS, 10), max(min(recent, events) // EVENTS, 10)
    until = store.clock.now()
    since, old = until - DAY - until % DAY, max(total - late, 0)
    pause = (until - since) // (late + 1)  # between two recent sessions
    truth: dict[str, set[tuple[Any, ...]]] = defaultdict(set)
    stories = [
        Story(n, since - (old - n) * APART if n < old else since + (n - old) * pause, n >= old)
        for n in range(old + late)
    ]
    for place in range(0, len(stories), TOGETHER):
        part = stories[place : place + TOGETHER]
        for question, row in store.write_now(Move("audit_history.write", "plain", partial(_write, stories=part))):
            truth[question].add(row)
    return AuditHistory(events=len(stories) * EVENTS, sessions=len(stories), since=since, until=until, truth=truth)


def _write(tx: StoreTransaction, stories: list[Story]) -> list[tuple[str, tuple[Any, ...]]]:
    now, facts = tx.now, []
    for one in stories:
        one.write(tx)
        facts += one.facts if one.is_recent else []
    tx.now = now
    return facts
