"""When schedules tick: changes of the clocks, leap days, jitter, missed ticks."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.clock import SECOND
from perdure.domain import schedule_times
from perdure.domain.schedule import Schedule
from perdure.domain.schedule_times import CATCH_UP, GRACE, due_at, next_tick, pending_ticks, tick_uid, ticks
from perdure.errors import ConfigError

MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86400 * SECOND
BERLIN, LORD_HOWE, CAIRO, KOLKATA = "Europe/Berlin", "Australia/Lord_Howe", "Africa/Cairo", "Asia/Kolkata"
CRONS = ["30 2 * * *", "*/10 2 * * *", "0 * * * *", "*/30 * * * *", "15,45 1-3 * * *", "0 */2 * * *", "0 0 * * FRI"]
CHANGES = [  # local days on which clocks are set forward or back
    (BERLIN, "2026-03-29"), (BERLIN, "2026-10-25"), (LORD_HOWE, "2026-04-05"), (LORD_HOWE, "2026-10-04"),
    (CAIRO, "2026-04-24"), (CAIRO, "2026-10-30"), (KOLKATA, "2026-05-05"),
]  # fmt: skip


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND


def local(tick: int, zone: str) -> str:
    return datetime.fromtimestamp(tick / SECOND, ZoneInfo(zone)).strftime("%d %H:%M%z")


def schedule(**columns: object) -> Schedule:
    row: dict[str, object] = {
        "uid": "a" * 32, "name": "nightly", "cron": None, "every": None, "timezone": "UTC", "jitter": 0,
        "overlap": "skip", "catch_up": "all", "program": "p", "arguments": {}, "options": {}, "last_tick": 0,
        "next_due": None, "paused_at": None, "removed_at": None, "version": 1, "updated_by": "ada", "updated_at": 0,
        "outcomes": {},
    }  # fmt: skip
    return Schedule(**(row | columns))  # type: ignore[arg-type]


def ticks_of(cron: str, zone: str, after: str, count: int) -> list[str]:
    made = schedule(cron=cron, timezone=zone)
    return [local(tick, zone) for tick in islice(ticks(made, at(after), 2**60), count)]


def test_tick_in_a_gap_comes_when_the_clocks_were_set_forward() -> None:
    assert ticks_of("30 2 * * *", BERLIN, "2026-03-28", 3) == ["28 02:30+0100", "29 03:00+0200", "30 02:30+0200"]


def test_several_ticks_in_a_gap_are_one() -> None:
    assert ticks_of("*/15 2 * * *", BERLIN, "2026-03-28T22:00", 2) == ["29 03:00+0200", "30 02:00+0200"]


def test_tick_of_a_fixed_hour_comes_once_when_the_hour_occurs_twice() -> None:
    assert ticks_of("30 2 * * *", BERLIN, "2026-10-24", 3) == ["24 02:30+0200", "25 02:30+0200", "26 02:30+0100"]


def test_hourly_ticks_follow_elapsed_time_through_both_changes() -> None:
    back = ["25 01:00+0200", "25 02:00+0200", "25 02:00+0100", "25 03:00+0100"]
    assert ticks_of("0 * * * *", BERLIN, "2026-10-24T22:30", 4) == back
    assert ticks_of("0 * * * *", BERLIN, "2026-03-28T23:30", 2) == ["29 01:00+0100", "29 03:00+0200"]


def test_zone_that_changes_by_half_an_hour_loses_no_tick() -> None:
    assert ticks_of("*/20 5 * * *", LORD_HOWE, "2026-10-03T14:00", 3) == [
        "04 05:00+1100", "04 05:20+1100", "04 05:40+1100",
    ]  # fmt: skip
    assert ticks_of("0 9 * * *", KOLKATA, "2026-05-05", 1) == ["05 09:00+0530"]


def test_leap_day_is_found_years_ahead() -> None:
    made = schedule(cron="0 12 29 2 *", timezone=BERLIN)
    assert list(islice(ticks(made, at("2026-11-16"), 2**60), 2)) == [at("2028-02-29T11:00"), at("2032-02-29T11:00")]


def test_period_ticks_at_its_multiples() -> None:
    assert next_tick(None, 10 * MINUTE, "UTC", at("2026-11-16T17:05:12")) == at("2026-11-16T17:10")


@cache
def by_minutes(cron: str, zone: str, begin: int, end: int) -> list[int]:
    """The ticks of a time computed minute by minute, as a reference."""
    fields, fixed, known, found = schedule_times.parse(cron), not cron.split()[1].startswith("*"), ZoneInfo(zone), []
    before = datetime.fromtimestamp(begin / SECOND, known).replace(tzinfo=None)

    def matches(one: datetime) -> bool:
        return one.minute in fields.minutes and one.hour in fields.hours and fields.match_day(one.date())

    for tick in range(begin + MINUTE, end + 1, MINUTE):
        now = datetime.fromtimestamp(tick / SECOND, known).replace(tzinfo=None, fold=0)
        passed = [now]
        if fixed:  # the local times that this minute brought for the first time
            passed = [before + timedelta(minutes=n + 1) for n in range(int((now - before).total_seconds() // 60))]
            before = max(before, now)
        found += [tick] if any(map(matches, passed)) else []
    return found


@pytest.mark.parametrize(("zone", "day"), CHANGES)
@given(cron=st.sampled_from(CRONS), offset=st.integers(0, 10 * 3600))
def test_ticks_do_not_depend_on_when_they_are_computed(zone: str, day: str, cron: str, offset: int) -> None:
    middle = int(datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone), hour=12).timestamp()) * SECOND
    begin = middle - 16 * HOUR
    start = begin + offset * SECOND
    expected = [tick for tick in by_minutes(cron, zone, begin - DAY, middle) if tick > start]
    assert list(ticks(schedule(cron=cron, timezone=zone), start, middle)) == expected


@given(
    every=st.integers(1, 900), jitter=st.integers(0, 2000), wakes=st.lists(st.integers(0, 7200), min_size=1, max_size=9)
)
def test_no_tick_is_lost_or_doubled_whenever_the_scheduler_wakes(every: int, jitter: int, wakes: list[int]) -> None:
    every = max(every, 7200 // CATCH_UP + 1)
    made = schedule(every=every * SECOND, jitter=jitter * SECOND, last_tick=0)
    started: list[int] = []
    for now in [*wakes, 7200]:  # not in order: the clock is also set back
        found = pending_ticks("store", made, now * SECOND)
        assert found.dropped is None
        started += found.starts
        made = schedule(every=made.every, jitter=made.jitter, last_tick=max([made.last_tick or 0, *found.starts]))
    due = [tick for tick in ticks(made, 0, 7200 * SECOND) if due_at("store", made, tick) <= max(*wakes, 7200) * SECOND]
    assert started == sorted(set(started))
    assert started == due[: len(started)]
    following = next(ticks(made, max([0, *started]), 2**60))
    assert due_at("store", made, following) > 7200 * SECOND


def test_catch_up_is_bounded_and_names_what_it_leaves_out() -> None:
    made, now = schedule(every=MINUTE), 10_000 * MINUTE + 5 * SECOND
    found = pending_ticks("store", made, now)
    assert len(found.starts) == CATCH_UP
    assert found.starts[-1] == 10_000 * MINUTE
    assert found.dropped == (MINUTE, (10_000 - CATCH_UP) * MINUTE)


def test_catch_up_last_starts_only_the_newest_tick() -> None:
    found = pending_ticks("store", schedule(every=MINUTE, catch_up="last"), 5 * MINUTE)
    assert found == ([5 * MINUTE], (MINUTE, 4 * MINUTE))


def test_catch_up_none_starts_only_a_tick_that_is_on_time() -> None:
    made = schedule(every=HOUR, catch_up="none")
    assert pending_ticks("store", made, 3 * HOUR + GRACE) == ([3 * HOUR], (HOUR, 2 * HOUR))
    assert pending_ticks("store", made, 3 * HOUR + GRACE + 1) == ([], (HOUR, 3 * HOUR))


def test_minutes_of_years_are_not_computed_one_by_one() -> None:
    found = pending_ticks("store", schedule(cron="* * * * *", timezone=BERLIN), at("2036-01-01"))
    assert (len(found.starts), found.dropped) == (CATCH_UP, (MINUTE, at("2036-01-01") - CATCH_UP * MINUTE))


def test_jitter_comes_from_the_tick_and_stays_within_its_bound() -> None:
    made = schedule(every=HOUR, jitter=MINUTE)
    delays = [due_at("store", made, hour * HOUR) - hour * HOUR for hour in range(200)]
    assert 0 <= min(delays) < max(delays) <= MINUTE
    assert delays == [due_at("store", made, hour * HOUR) - hour * HOUR for hour in range(200)]


def test_uid_of_a_tick_depends_on_store_schedule_version_and_time() -> None:
    first, later = schedule(every=HOUR), schedule(every=HOUR, version=2)
    uids = {tick_uid(store, one, tick) for store in ("a", "b") for one in (first, later) for tick in (HOUR, DAY)}
    assert len(uids) == 8
    assert {len(uid) for uid in uids} == {32}


@pytest.mark.parametrize(
    ("cron", "message"),
    [
        ("", "wrong number of fields"),
        ("* * * *", "wrong number of fields"), ("0 0 0 * * *", "wrong number of fields"),
        ("61 * * * *", "bad minute"), ("* 24 * * *", "bad hour"), ("0 0 30 2 *", "bad day-of-month"),
        ("0 0 * 13 *", "bad month"), ("0 0 * * 8", "bad day-of-week"), ("a b c d e", "bad minute"),
    ],
)  # fmt: skip
def test_wrong_cron_expression_is_refused_in_one_sentence(cron: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        schedule_times.check_times(cron, None, BERLIN, 0, now=0)
    assert "five fields" in error.value.hint


def test_expression_that_never_matches_is_refused() -> None:
    with pytest.raises(ConfigError, match="never matches a date"):
        schedule_times.check_times("0 0 */25 2 MON#5", None, "UTC", 0, now=0)


def test_schedule_has_a_cron_expression_or_a_period() -> None:
    for cron, every in ((None, None), ("* * * * *", MINUTE)):
        with pytest.raises(ConfigError, match="either a cron expression or a period"):
            schedule_times.check_times(cron, every, "UTC", 0, now=0)
    for period in (1, SECOND - 1, 2**62):
        with pytest.raises(ConfigError, match="period"):
            schedule_times.check_times(None, period, "UTC", 0, now=0)


@pytest.mark.parametrize("name", ["", "Berlin", "Europe", "../etc/passwd", "/etc/passwd", "a\nb"])
def test_unknown_time_zone_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="There is no time zone"):
        schedule_times.check_times("* * * * *", None, name, 0, now=0)


def test_missing_time_zone_database_is_reported_and_not_needed_for_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> ZoneInfo:
        raise zoneinfo.ZoneInfoNotFoundError(name)

    monkeypatch.setattr(zoneinfo, "ZoneInfo", missing)
    monkeypatch.setattr(zoneinfo, "available_timezones", set)
    schedule_times.zone.cache_clear()
    with pytest.raises(ConfigError, match="no time zone database") as error:
        schedule_times.check_times("* * * * *", None, BERLIN, 0, now=0)
    assert "tzdata" in error.value.hint
    schedule_times.check_times("* * * * *", None, "UTC", 0, now=0)
