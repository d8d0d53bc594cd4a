"""When a schedule ticks. Pure functions of a schedule and a time.

A tick is the nominal time, in microseconds of UTC, at which a session is to be started. The ticks of a schedule are the
same whenever, wherever and from whichever moment they are computed, so that no process loses or repeats one.

A period ticks at its multiples since 1970 in UTC. A cron expression is matched against the local time of its zone:

    the hour field is `*`, `*/N` or all hours    follows elapsed time: an hour that occurs twice ticks twice, and one
                                                 that is left out does not tick
    any other hour field                         each local time ticks once: at its first occurrence, or, if the clocks
                                                 were set forward past it, when they were

cronsim only matches the fields, on local times without a zone: it loses ticks in zones that change by half an hour.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import islice, takewhile
from typing import TYPE_CHECKING, NamedTuple

from perdure.clock import SECOND, format_time
from perdure.domain.schedule import CatchUp, Schedule
from perdure.errors import ConfigError
from perdure.ids import digest

if TYPE_CHECKING:  # every command imports this module, and few compute a tick
    from cronsim import CronSim

CATCH_UP = 100  # missed ticks that are made up at a time, the newest
GRACE = 60 * SECOND  # a tick that is handled later than this after it was due was missed
SHORTEST, LONGEST = SECOND, 3660 * 86400 * SECOND
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
FIELDS = "minute hour day-of-month month day-of-week"


class PendingTicks(NamedTuple):
    """The ticks of a schedule that are due: those to start, and the first and last of those that are left out."""

    starts: list[int]
    dropped: tuple[int, int] | None


def check_times(cron: str | None, every: int | None, timezone: str, jitter: int, *, now: int) -> None:
    """Refuse times that cannot be used, or that never come."""
    if (cron is None) == (every is None):
        raise ConfigError(
            "A schedule has either a cron expression or a period.",
            hint='Give one of them: cron "0 3 * * *", or every "10m".',
        )
    zone(timezone)
    if every is not None and not SHORTEST <= every <= LONGEST:
        raise ConfigError("The period of a schedule is from one second to ten years.")
    if jitter > LONGEST:
        raise ConfigError("The jitter of a schedule is at most ten years.")
    if cron is not None:
        parse(cron)
        if next_tick(cron, every, timezone, now) is None:
            raise ConfigError(f"The cron expression {cron!r} never matches a date.", hint="Check its day and month.")


def parse(cron: str, start: datetime | None = None) -> CronSim:
    """A matcher of an expression of five fields, that begins after a local time without a zone."""
    from cronsim import CronSim, CronSimError

    try:
        if len(cron.split()) != 5:
            raise CronSimError("Wrong number of fields")
        return CronSim(cron, (start or EPOCH).replace(tzinfo=None))
    except CronSimError as error:
        raise ConfigError(
            f"{cron[:80]!r} is not a cron expression: {str(error).lower()}.",
            hint=f'It has five fields: {FIELDS}. For example "30 8 * * MON-FRI".',
        ) from None


@lru_cache
def zone(name: str) -> tzinfo:
    """A time zone by its name in the database of the system, or of the package `tzdata`. UTC needs no database."""
    from zoneinfo import ZoneInfo, available_timezones

    try:
        if name == "UTC":
            return UTC
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):  # not found is a LookupError
        if not available_timezones():
            raise ConfigError(
                "This machine has no time zone database.",
                hint="Install the system package tzdata, or run `pip install tzdata`.",
            ) from None
        raise ConfigError(f"There is no time zone {name[:80]!r}.", hint="Use a name like Europe/Berlin.") from None


def next_tick(cron: str | None, every: int | None, timezone: str, after: int) -> int | None:
    """The first tick after a time; None if there is none."""
    if every is not None:
        return (after // every + 1) * every
    try:
        begin = EPOCH + timedelta(microseconds=after)
        found = _next_match(cron or "", zone(timezone), begin)
    except (OverflowError, StopIteration):  # the calendar ends, or the expression matches no date
        return None
    return (found - EPOCH) // timedelta(microseconds=1)


def ticks(schedule: Schedule, after: int, through: int) -> Iterator[int]:
    """The ticks after one time, up to another."""
    found = next_tick(schedule.cron, schedule.every, schedule.timezone, after)
    while found is not None and found <= through:
        yield found
        found = next_tick(schedule.cron, schedule.every, schedule.timezone, found)


def newest_ticks(schedule: Schedule, after: int, through: int, most: int) -> list[int]:
    """The last ticks between two times. It does not compute the others, which may be millions."""
    span = schedule.every * most if schedule.every else 3600 * SECOND
    while True:
        start = max(after, through - span)
        if start == after:
            return list(ticks(schedule, after, through))[-most:]
        if len(found := list(ticks(schedule, start, through))) >= most:
            return found[-most:]
        span *= 2


def tick_uid(store_id: str, schedule: Schedule, tick: int) -> str:
    """The uid of a tick's session. It is the same after a restore, so that no effect is done twice."""
    return digest(f"tick {store_id} {schedule.uid} {schedule.version} {tick}")[:32]


def due_at(store_id: str, schedule: Schedule, tick: int) -> int:
    """When a tick is to be handled: its time, and its jitter."""
    return tick + int(tick_uid(store_id, schedule, tick)[:15], 16) % (schedule.jitter + 1)


def next_due(store_id: str, schedule: Schedule, after: int) -> int | None:
    """When the first tick after another one is to be handled."""
    tick = next_tick(schedule.cron, schedule.every, schedule.timezone, after)
    return None if tick is None else due_at(store_id, schedule, tick)


def pending_ticks(store_id: str, schedule: Schedule, now: int) -> PendingTicks:
    """What to do with the ticks after the last one that was handled.

    Ticks are handled in order: one whose jitter is longer delays those that follow it.
    """
    last = schedule.last_tick or 0
    found = newest_ticks(schedule, last, now, CATCH_UP + 1)
    if not found:
        return PendingTicks([], None)
    is_long = len(found) > CATCH_UP
    due = list(takewhile(lambda tick: due_at(store_id, schedule, tick) <= now, found))
    match schedule.catch_up:
        case CatchUp.ALL:
            starts = due[-CATCH_UP:]
        case CatchUp.LAST:
            starts = due[-1:]
        case _:
            starts = [tick for tick in due[-1:] if now - due_at(store_id, schedule, tick) <= GRACE]
    left = due[: len(due) - len(starts)]
    if not left:
        return PendingTicks(starts, None)
    first = next(ticks(schedule, last, now), left[0]) if is_long else left[0]
    return PendingTicks(starts, (first, left[-1]))


def coming_ticks(schedule: Schedule, now: int, most: int) -> list[int]:
    """The next ticks of a schedule."""
    after = max(now, schedule.last_tick or 0)
    return list(islice(ticks(schedule, after, 2**62), most))


def session_id(schedule: Schedule, tick: int) -> str:
    """The id of a tick's session, such as `nightly-2026-11-16T17:05`, in UTC."""
    date, time = format_time(tick).removesuffix("Z").split(" ")
    return f"{schedule.name}-{date}T{time.removesuffix(':00')}"


def _next_match(cron: str, zone: tzinfo, after: datetime) -> datetime:
    local = after.astimezone(zone).replace(tzinfo=None)
    matches = parse(cron, local)
    if not (cron.split()[1].startswith("*") or len(matches.hours) == 24):
        return next(found for one in matches if (found := _first_occurrence(one, zone)) > after)
    while True:
        offset = after.astimezone(zone).utcoffset() or timedelta()
        found = (next(parse(cron, local)) - offset).replace(tzinfo=UTC)
        change = _next_change(zone, after, found)
        if change is None:
            return found
        after = change  # the offset is another one from there on, its own moment included
        local = change.astimezone(zone).replace(tzinfo=None) - timedelta(seconds=1)


def _first_occurrence(local: datetime, zone: tzinfo) -> datetime:
    """The moment of a local time; of one that was left out, the moment of the change that left it out."""
    found = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if found.astimezone(zone).replace(tzinfo=None) == local:
        return found
    return _next_change(zone, found - DAY, found) or found


def _next_change(zone: tzinfo, after: datetime, through: datetime) -> datetime | None:
    """When the offset of a zone first changes after a moment, up to another, to the second."""

    def offset(moment: datetime) -> timedelta | None:
        return moment.astimezone(zone).utcoffset()

    low, known = after.replace(microsecond=0), offset(after)
    while low < through and offset(high := min(low + DAY, through)) == known:
        low = high
    if low >= through:
        return None
    while high - low > timedelta(seconds=1):
        middle = low + timedelta(seconds=(high - low) // timedelta(seconds=2))
        low, high = (middle, high) if offset(middle) == known else (low, middle)
    return high
