"""Schedules as people define them, and the handling of their ticks.

A scheduler is any process that calls `handle_due` when a tick is due; several may do so at the same time. It needs
neither the code of the programs nor anything of its own: what it knows is in the store (`store.moves.schedule`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from perdure.clock import SECOND, format_time
from perdure.domain import schedule_times
from perdure.domain.literals import CatchUpWord, OverlapWord
from perdure.domain.schedule import CatchUp, Overlap, Schedule, TickOutcome
from perdure.errors import ConfigError, Damaged, IllegalMove, StoreFull, StoreUnavailable
from perdure.ids import check_name, check_text, encode, new_uid
from perdure.runtime.definitions.durations import microseconds
from perdure.runtime.definitions.program import Bound, check_bound
from perdure.runtime.ledger.policy import Policy
from perdure.runtime.policy.repository_policy import look_at
from perdure.runtime.queries import Queries, SessionView
from perdure.runtime.start_options import StartOptions
from perdure.store.moves import schedule
from perdure.store.moves.session import NewSession
from perdure.store.store import Store

logger = logging.getLogger(__name__)
LONGEST_NAME = 150  # characters: ids of sessions begin with the name
LARGEST = 64 * 1024  # bytes of the arguments
MOST_BACKFILLED = 1000  # ticks
RETRY = 60 * SECOND  # after a session could not be started
LINE = 15 * SECOND  # how often lines are examined: the process that ended a session normally wakes the next one
OWN_OPTIONS = ("receives", "under_policy")


class Cancel(Protocol):
    """How a session is cancelled (`Requests.cancel`)."""

    async def __call__(self, name: str, *, by: str | None = None) -> Any: ...


class Schedules:
    """The schedules of a store. `by` is who changes them, unless a call names another person."""

    def __init__(self, store: Store, queries: Queries, policy: Policy, by: str, cancel: Cancel) -> None:
        self._store = store
        self._queries = queries
        self._policy = policy
        self._by = by
        self._cancel = cancel

    async def add_schedule(
        self, name: str, bound: Bound[Any], *, cron: str | None = None, every: str | float | None = None,
        timezone: str = "UTC", jitter: str | float = 0, overlap: OverlapWord = "skip", catch_up: CatchUpWord = "last",
        owner: str | None = None, repository: str | Path | None = None, title: str | None = None,
        queue: str = "default", priority: int = 0, key: str | None = None, retries: int | None = None,
        timeout: str | float | None = None, pin: bool = False, by: str | None = None,
    ) -> Schedule:  # fmt: skip
        """Start a session at certain times: at those of a cron expression in a time zone, or periodically.

        A schedule of the same name is changed. A worker or `perdure serve` must run; each tick starts exactly one
        session, however many run. `overlap` decides what a tick does while a session of the schedule has not ended,
        `catch_up` which missed ticks are made up, up to 100. The other options are those of `start`.
        """
        options = StartOptions.read(
            owner=owner, repository=repository, title=title, queue=queue, priority=priority, key=key, retries=retries,
            timeout=timeout, pin=pin,
        )  # fmt: skip
        _check_program(name, bound)
        period, delay = None if every is None else microseconds(every), microseconds(jitter)
        schedule_times.check_times(cron, period, timezone, delay, now=self._store.clock.now())
        for word, known in ((overlap, Overlap), (catch_up, CatchUp)):
            if word not in set(known):
                raise ConfigError(f"{word!r:.40} is not one of {', '.join(known)}.")
        receives = bound.program.may_receive and not bound.program.reads_messages
        own = {"receives": receives, "under_policy": self._policy.is_given}
        definition = {
            "cron": cron, "every": period, "timezone": timezone, "jitter": delay, "overlap": str(overlap),
            "catch_up": str(catch_up), "program": bound.program.name, "arguments": bound.arguments,
            "options": options.stored() | {key: True for key, value in own.items() if value},
        }  # fmt: skip
        return await self._store.write(schedule.put(name, definition, by=self._actor(by)))

    async def schedules(self) -> AsyncIterator[Schedule]:
        """The schedules, by name."""
        for one in await self._store.read(schedule.listing):
            yield one

    async def get(self, name: str) -> Schedule:
        return await self._store.read(schedule.get, name)

    async def pause_schedule(self, name: str, *, by: str | None = None) -> Schedule:
        """Start no sessions of a schedule until it is resumed."""
        return await self._store.write(schedule.set_paused(name, True, by=self._actor(by)))

    async def resume_schedule(self, name: str, *, by: str | None = None) -> Schedule:
        """Resume a paused schedule. Its `catch_up` decides about the ticks of the pause."""
        return await self._store.write(schedule.set_paused(name, False, by=self._actor(by)))

    async def remove_schedule(self, name: str, *, by: str | None = None) -> Schedule:
        """Remove a schedule; returns it as it was. Its sessions stay, and its name can be used again."""
        found = await self.get(name)
        await self._store.write(schedule.remove(found.uid, by=self._actor(by)))
        return found

    async def trigger_schedule(self, name: str, *, by: str | None = None) -> SessionView:
        """Start a session of a schedule now, beside its ticks, whether it is paused or not. Its `overlap` holds."""
        found, actor = await self.get(name), self._actor(by)
        if found.overlap == Overlap.CANCEL:
            await self._cancel_open(found, actor)
        build = await _builder(found)
        made = await self._store.write(schedule.trigger(found.uid, build, by=actor, session_uid=new_uid()))
        return await self._queries.get(made.uid)

    async def backfill(self, name: str, since: datetime | str, until: datetime | str) -> list[str]:
        """Start a session of a schedule for each past tick from `since` up to `until` that has none; returns their ids.

        A time without an offset is a local time of the schedule. Repeating it is harmless.
        """
        found = await self.get(name)
        first, end = (_moment(one, found) for one in (since, until))
        if end > self._store.clock.now():
            raise ConfigError(
                "The end of a backfill is in the future.", hint="Future ticks start their sessions when they are due."
            )
        missing = list(_limited(found, first, end))
        started: list[str] = []
        build = await _builder(found)
        for tick in missing:
            result = await self._store.write(schedule.backfill_tick(found.uid, found.version, tick, build))
            started += [] if result is None else [result.session]
        return started

    async def handle_due(self) -> int | None:
        """Handle every tick that is due; returns when the next one is. One bad schedule does not stop the others."""
        due = await self._store.read(schedule.first_due)
        is_due = due is not None and due <= self._store.clock.now()
        for uid, found in await self._store.read(schedule.due) if is_due else ():
            try:
                if isinstance(found, Damaged):
                    raise found
                await self._handle(found)
            except (StoreUnavailable, StoreFull):
                raise
            except Exception as error:
                until, name = self._store.clock.now() + RETRY, uid if isinstance(found, Damaged) else found.name
                logger.warning("Schedule %s: its session could not be started (%s).", name, error)
                postponed = schedule.hold(uid, until)
                if isinstance(found, Schedule):
                    postponed = schedule.postpone(uid, found.version, until, str(error)[:500])
                await self._store.write(postponed)
        lines = await self._store.read(schedule.lines)
        for uid in lines:  # afterwards: a session may have ended while the next one was put behind it
            try:
                await self._store.write(schedule.promote(uid))
            except (StoreUnavailable, StoreFull):
                raise
            except Exception as error:
                logger.warning("Schedule %s: the next session in line could not begin (%s).", uid, error)
        if is_due or lines:
            due = await self._store.read(schedule.first_due)
        soon = self._store.clock.now() + LINE
        return due if not lines or (due is not None and due < soon) else soon

    async def _handle(self, found: Schedule) -> None:
        store_id = await self._store.read(schedule.store_id)
        pending = schedule_times.pending_ticks(store_id, found, self._store.clock.now())
        if pending.dropped is not None:
            first, last = pending.dropped
            times = (found.name, format_time(first), format_time(last))
            logger.warning("Schedule %s: missed ticks from %s to %s are not made up.", *times)
            await self._store.write(schedule.drop(found.uid, found.version, first, last))
        build = await _builder(found)
        for tick in pending.starts:
            if found.overlap == Overlap.CANCEL:  # first: if this process dies in between, the tick is handled again
                await self._cancel_open(found, schedule.actor(found))
            result = await self._store.write(schedule.start_tick(found.uid, found.version, tick, build))
            if result is not None and result.outcome is TickOutcome.SKIPPED:
                at = format_time(tick)
                logger.info("Schedule %s: the tick of %s is skipped; %s has not ended.", found.name, at, result.session)
        if pending == ([], None):
            await self._store.write(schedule.postpone(found.uid, found.version, None))

    async def _cancel_open(self, found: Schedule, by: str) -> None:
        for one in await self._store.read(schedule.open_sessions, found.uid, limit=schedule.MOST_OPEN):
            with suppress(IllegalMove):  # it has ended meanwhile
                await self._cancel(one.uid, by=by)

    def _actor(self, by: str | None) -> str:
        return check_text("The name of who changes the schedule", by or self._by)


def _check_program(name: str, bound: Bound[Any]) -> None:
    """Refuse a name, a program or arguments that a schedule cannot have."""
    check_bound(bound)
    check_name("The schedule", name)
    if len(name) > LONGEST_NAME:
        raise ConfigError(f"The name of a schedule has up to {LONGEST_NAME} characters.")
    if bound.files or len(encode(bound.arguments).encode()) > LARGEST:
        raise ConfigError(
            f"The arguments of a schedule have up to {LARGEST >> 10} KiB, without images and documents.",
            hint="Name a file that the program reads.",
        )


async def _builder(found: Schedule) -> Callable[[Schedule, int, int, str, str], NewSession]:
    """What builds the sessions of a schedule, in its transaction; the repository is looked at before that."""
    return partial(build_session, **await asyncio.to_thread(look_at, found.options.get("repository")))


def build_session(
    found: Schedule, now: int, tick: int, id: str, uid: str, *, repository_id: str | None = None,
    repository_policy: dict[str, str] | None = None,
) -> NewSession:  # fmt: skip
    """The session of a tick, with the options of its schedule."""
    given = {key: value for key, value in found.options.items() if key not in OWN_OPTIONS}
    own: dict[str, Any] = {key: bool(found.options.get(key)) for key in OWN_OPTIONS}
    columns = StartOptions.from_stored(given).columns(now)
    about: dict[str, Any] = {"schedule_uid": found.uid, "scheduled_at": tick, "repository_id": repository_id}
    about["repository_policy"] = repository_policy
    return NewSession(id=id, uid=uid, program=found.program, arguments=found.arguments, **columns, **own, **about)


def _moment(given: datetime | str, found: Schedule) -> int:
    """A time in microseconds; without an offset it is a local time of the schedule."""
    try:
        moment = datetime.fromisoformat(given) if isinstance(given, str) else given
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=schedule_times.zone(found.timezone))
        return int((moment - schedule_times.EPOCH).total_seconds() * SECOND)
    except (ValueError, OverflowError):
        raise ConfigError(
            f"{given!r:.60} is not a time.", hint="Write it as 2026-11-16T17:05, or 2026-11-16."
        ) from None


def _limited(found: Schedule, first: int, end: int) -> list[int]:
    """The ticks from a time up to another, that one not included."""
    if first >= end:
        raise ConfigError("The end of a backfill is not after its beginning.")
    ticks: list[int] = []
    for tick in schedule_times.ticks(found, first - 1, end - 1):
        ticks.append(tick)
        if len(ticks) > MOST_BACKFILLED:
            raise ConfigError(
                f"There are more than {MOST_BACKFILLED:,} ticks in this time; nothing was started.",
                hint="Backfill a shorter time, several times.",
            )
    return ticks
