"""The questions of an audit as a program asks them: parameters by name, times as people write them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from perdure.clock import SECOND
from perdure.errors import ConfigError, NotPermitted
from perdure.runtime.definitions.durations import microseconds
from perdure.store.audit import answers
from perdure.store.audit.answers import AuditRange
from perdure.store.audit.question import AuditQuestion, AuditRow
from perdure.store.audit.questions import QUESTIONS
from perdure.store.moves import feed
from perdure.store.moves.feed import FeedEvent
from perdure.store.store import Store

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
POLL = 1.0  # seconds between two looks at the feed
SLACK = 600 * SECOND  # how long after it began a commit is still found without a look at all sessions
SWEEP = 3600 * SECOND  # between two looks at all sessions
Moment = datetime | str | int | None


class Audit:
    """The questions, and their answers from a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def audit_questions(self) -> list[AuditQuestion]:
        """The questions of an audit, with their parameters, their columns, and the indexes that answer them."""
        return list(QUESTIONS.values())

    async def audit(
        self, /, question: str, *, since: Moment = None, until: Moment = None, limit: int | None = None,
        **parameters: str | None,
    ) -> AsyncIterator[AuditRow]:  # fmt: skip
        """The rows that answer a question; `since` and `until`: "7d" (before now), a date in UTC, or a datetime."""
        span = read_range(since, until, self._store.clock.now())
        after, left = None, answers.FOREVER if limit is None else limit
        while left > 0 and (
            rows := await self._store.read(
                answers.page, question, parameters, span, after=after, limit=min(left, answers.PAGE)
            )
        ):
            for row in rows:
                yield row
            after, left = rows[-1].key, left - len(rows)

    async def audit_feed(self, *, after: int = 0, follow: bool = False) -> AsyncIterator[FeedEvent]:
        """Every committed event of the store once, in one order; `after` is the position of the last one that you have.

        Keep the position of an event when you have processed it: then none is missed, and the last may come again.
        """
        swept: int | None = None
        looked = 0
        while True:
            now = self._store.clock.now()
            since = None if swept is None or now - swept >= SWEEP else looked - SLACK
            await self._number(since)
            swept, looked = now if since is None else swept, now
            while page := await self._store.read(feed.read, after):
                for one in page:
                    after = one.position
                    yield one
            if not follow:
                return
            await asyncio.sleep(POLL)

    async def _number(self, since: int | None) -> None:
        """Number what has no number. A login that may only read leaves that to others."""
        if not await self._store.read(feed.is_behind, since):
            return
        with suppress(NotPermitted):
            place: str | None = ""
            while place is not None:
                place = await self._store.write(feed.number(since, place))


def read_range(since: Moment, until: Moment, now: int) -> AuditRange:
    """A range as people give it: a duration before now, a date or time in UTC, or microseconds since 1970."""
    first, last = _moment(since, now), _moment(until, now)
    span = AuditRange(since=max(first or 0, 0), until=answers.FOREVER if last is None else last)
    if span.since >= span.until:
        raise ConfigError("The range is empty: it ends before it begins.", hint="Give an earlier --since.")
    return span


def _moment(given: Moment, now: int) -> int | None:
    if given is None or (isinstance(given, int) and not isinstance(given, bool)):
        return given
    if isinstance(given, str):
        try:
            then = datetime.fromisoformat(given.strip())
        except ValueError:
            return now - microseconds(given)
    elif isinstance(given, datetime):
        then = given
    else:
        raise ConfigError(f"{given!r} is not a time.", hint='Give "7d", "2026-11-01" or a datetime.')
    known = then if then.tzinfo is not None else then.replace(tzinfo=UTC)
    return (known - EPOCH) // timedelta(microseconds=1)
