"""Schedules: each tick starts one session; overlap, missed ticks, changes, pauses, restores."""

from __future__ import annotations

import asyncio
import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import ConfigError, Conflict, NotFound, Session, program
from perdure.clock import SECOND
from perdure.domain.literals import CatchUpWord
from perdure.domain.restore import Cause
from perdure.domain.schedule import Schedule
from perdure.domain.schedule_times import tick_uid
from perdure.domain.session import SessionRecord
from perdure.runtime.runtime import Runtime
from perdure.store.move import Move
from perdure.store.moves import restore, schedule
from tests.runtime.support.scripted_world import World

pytestmark = pytest.mark.databases("sqlite", "postgres")
MINUTE = 60 * SECOND


@program
async def report(s: Session, name: str = "daily") -> str:
    return name


@program
async def schedule_asks(s: Session) -> str:
    return str(await s.ask("continue?"))


async def add(world: World, bound: Any = None, **options: Any) -> Schedule:
    times = {} if "cron" in options else {"every": "10m"}
    return await world.rt.add_schedule("job", bound or report.bind(), **(times | options))


async def tick(world: World, minutes: float = 10, *more: Runtime) -> None:
    """Let time pass, and handle what is due in one process or several."""
    world.clock.advance(seconds=60 * minutes)
    await asyncio.gather(*(one.schedule_handler.handle_due() for one in [world.rt, *more]))


async def sessions(world: World) -> list[SessionRecord]:
    return sorted([one async for one in world.rt.sessions()], key=lambda one: one.scheduled_at or 0)


async def the(world: World) -> Schedule:
    (only,) = [one async for one in world.rt.schedules()]
    return only


async def test_tick_starts_one_session_with_a_readable_id(world: World) -> None:
    made = await add(world, queue="reports", priority=3, owner="ada", key="k", retries=2, timeout="1h")
    assert (made.next_due or 0) > world.clock.now()
    await tick(world)
    (started,) = await sessions(world)
    at = started.scheduled_at or 0
    assert started.id == f"job-{schedule_id(at)}"
    assert (at % (10 * MINUTE), started.schedule_uid) == (0, made.uid)
    assert (started.queue, started.priority, started.owner, started.concurrency_key) == ("reports", 3, "ada", "k")
    assert (started.max_retries, started.deadline_at) == (2, started.created_at + 60 * MINUTE)
    now = await the(world)
    assert (now.last_tick, now.outcomes["started"]["session"]) == (at, started.id)
    view = await world.rt.run(started.id)
    assert (view.status, view.result) == ("done", "daily")
    world.verify(started.id)


def schedule_id(at: int) -> str:
    return datetime.fromtimestamp(at / SECOND, UTC).strftime("%Y-%m-%dT%H:%M")


async def test_several_schedulers_start_one_session_for_each_tick(world: World) -> None:
    await add(world, overlap="queue")
    others = [world.open() for _ in range(3)]
    try:
        for _ in range(3):
            await tick(world, 10, *others)
    finally:
        for one in others:
            one.close()
    found = await sessions(world)
    assert len({one.scheduled_at for one in found}) == len(found) == 3


async def test_tick_is_skipped_while_a_session_has_not_ended(world: World) -> None:
    await add(world, schedule_asks.bind())
    await tick(world)
    (first,) = await sessions(world)
    await tick(world)
    await tick(world)
    skipped = (await the(world)).outcomes["skipped"]
    assert (skipped["session"], skipped["count"], len(await sessions(world))) == (first.id, 2, 1)
    await world.rt.cancel(first.id)
    await tick(world)
    assert len(await sessions(world)) == 2
    assert (await the(world)).outcomes["skipped"]["count"] == 0


async def test_queued_sessions_run_one_after_the_other(world: World) -> None:
    await add(world, schedule_asks.bind(), overlap="queue")
    for _ in range(3):
        await tick(world)
    first, second, third = await sessions(world)
    assert [one.status for one in (first, second, third)] == ["ready", "waiting", "waiting"]
    view = await world.rt.get(third.id)
    assert [(one.kind, one.detail["session"]) for one in view.waits] == [("slot", second.id)]
    await world.rt.cancel(second.id)  # the first one still has not ended
    assert (await world.rt.get(third.id)).status == "waiting"
    await world.rt.run(first.id)
    assert (await world.rt.get(third.id)).status == "waiting"
    (asked,) = (await world.rt.get(first.id)).waits
    await world.rt.answer(asked.id, "yes")
    assert (await world.rt.run(first.id)).status == "done"
    assert (await world.rt.get(third.id)).status == "ready"
    for one in (first, second, third):
        world.verify(one.id)


async def test_session_in_line_that_is_moved_to_another_store_runs_there(world: World, tmp_path: Path) -> None:
    await add(world, schedule_asks.bind(), overlap="queue")
    await tick(world)
    await tick(world)
    _, second = await sessions(world)
    stream = io.BytesIO()
    await world.rt.export(second.id, stream, move=True)
    stream.seek(0)
    async with perdure.open(tmp_path / "other.db") as other:
        await other.import_(stream)
        assert ((moved := await other.get(second.id)).status, moved.waits) == ("ready", ())
        assert (await other.verify()).damaged == []


async def test_scheduler_continues_a_line_that_a_dead_process_left(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add(world, schedule_asks.bind(), overlap="queue")
    await tick(world)
    await tick(world)
    first, second = await sessions(world)
    with monkeypatch.context() as patch:  # the process dies after the session has ended

        async def dies(uid: str) -> None:
            raise KeyboardInterrupt

        patch.setattr(world.rt.requests, "wake_parent", dies)
        with pytest.raises(KeyboardInterrupt):
            await world.rt.cancel(first.id)
    assert (await world.rt.get(second.id)).status == "waiting"
    await world.rt.schedule_handler.handle_due()
    assert (await world.rt.get(second.id)).status == "ready"


async def test_tick_cancels_the_session_before_it(world: World) -> None:
    await add(world, schedule_asks.bind(), overlap="cancel")
    await tick(world)
    await tick(world)
    assert [one.status for one in await sessions(world)] == ["cancelled", "ready"]


async def test_missed_ticks_are_made_up_as_the_schedule_says(world: World) -> None:
    expected: dict[CatchUpWord, tuple[int, int | None]] = {"all": (6, None), "last": (1, 5), "none": (0, 6)}
    for word, (started, dropped) in expected.items():
        made = await world.rt.add_schedule(word, report.bind(), every="10m", catch_up=word, overlap="cancel")
        begin = (made.last_tick or 0) // (10 * MINUTE) * 10 * MINUTE
        world.clock.advance(seconds=60 * (68 - (world.clock.now() - begin) / MINUTE))
        await world.rt.schedule_handler.handle_due()
        known = [one for one in await sessions(world) if one.schedule_uid == made.uid]
        assert len(known) == started
        now = next(one for one in [one async for one in world.rt.schedules()] if one.name == word)
        last = now.outcomes.get("dropped")
        assert (last and (last["tick"] - begin) // (10 * MINUTE)) == dropped
        await world.rt.remove_schedule(word)


async def test_pause_starts_nothing_and_resume_makes_up_the_last_tick(world: World) -> None:
    await add(world)
    await world.rt.pause_schedule("job")
    await tick(world, 35)
    assert await sessions(world) == []
    await world.rt.resume_schedule("job", by="ada")
    await tick(world, 0)
    assert len(await sessions(world)) == 1
    assert (await the(world)).updated_by == "ada"


async def test_change_begins_a_version_whose_ticks_are_later(world: World) -> None:
    first = await add(world, catch_up="all")
    assert await add(world, catch_up="all") == first  # the same definition
    await tick(world, 35)
    before = len(await sessions(world))
    world.clock.advance(seconds=60 * 30)
    changed = await add(world, report.bind(name="other"), catch_up="all")
    assert (changed.version, changed.uid) == (2, first.uid)
    await tick(world, 0)
    assert len(await sessions(world)) == before
    (done,) = await sessions(world)
    await world.rt.run(done.id)
    await tick(world, 10)
    assert [one.arguments["name"] for one in await sessions(world)] == ["daily", "other"]


async def test_clock_that_is_set_back_repeats_no_tick(world: World) -> None:
    await add(world, overlap="cancel")
    await tick(world, 30)
    world.clock.advance(seconds=60 * -25)
    for _ in range(5):
        await tick(world, 5)
    assert len(await sessions(world)) == 1
    await tick(world, 10)
    assert len(await sessions(world)) == 2


async def test_removed_schedule_starts_nothing_and_frees_its_name(world: World) -> None:
    first = await add(world)
    await tick(world)
    await world.rt.remove_schedule("job")
    await tick(world)
    assert len(await sessions(world)) == 1
    with pytest.raises(NotFound):
        await world.rt.pause_schedule("job")
    second = await add(world)
    assert second.uid != first.uid
    await world.rt.backfill("job", "2020-01-01T00:00", "2020-01-01T00:20")
    assert len(await sessions(world)) == 3


async def test_name_in_use_by_another_session_gets_a_suffix(world: World) -> None:
    made = await add(world)
    at = (made.last_tick or 0) // (10 * MINUTE) * 10 * MINUTE + 10 * MINUTE
    taken = f"job-{schedule_id(at)}"
    await world.rt.start(report.bind(), id=taken)
    await tick(world)
    (own,) = [one for one in await sessions(world) if one.schedule_uid]
    assert own.id == f"{taken}-{own.uid[-8:]}"


async def test_backfill_starts_missing_ticks_once(world: World) -> None:
    await add(world, cron="0 9 * * *", timezone="Europe/Berlin", overlap="queue")
    started = await world.rt.backfill("job", "2020-06-01", "2020-06-04")
    assert started == [f"job-2020-06-0{day}T07:00" for day in (1, 2, 3)]
    assert await world.rt.backfill("job", "2020-06-01", "2020-06-05") == ["job-2020-06-04T07:00"]
    assert [one.status for one in await sessions(world)] == ["ready", "waiting", "waiting", "waiting"]
    for since, until in (("2020-06-01", "2020-06-01"), ("1990-01-01", "2020-01-01"), ("2020-01-01", "2999-01-01")):
        with pytest.raises(ConfigError):
            await world.rt.backfill("job", since, until)
    with pytest.raises(ConfigError, match="is not a time"):
        await world.rt.backfill("job", "yesterday", "today")


async def test_triggered_session_follows_the_rule_for_overlap(world: World) -> None:
    await add(world, schedule_asks.bind())
    await world.rt.pause_schedule("job")
    first = await world.rt.trigger_schedule("job", by="ada")
    with pytest.raises(Conflict, match=f"{first.id} of schedule job has not ended"):
        await world.rt.trigger_schedule("job")
    await add(world, schedule_asks.bind(), overlap="queue")
    assert (await world.rt.trigger_schedule("job")).status == "waiting"
    await add(world, schedule_asks.bind(), overlap="cancel")
    assert (await world.rt.trigger_schedule("job")).status == "ready"
    assert (await world.rt.get(first.id)).status == "cancelled"


async def test_tick_that_cannot_start_is_reported_and_tried_again(world: World) -> None:
    made = await add(world, queue="closed")
    other = await world.rt.add_schedule("other", report.bind(), every="10m")
    await world.rt.set_queue("closed", closed=True)
    await tick(world)
    assert [one.schedule_uid for one in await sessions(world)] == [other.uid]
    (refused,) = [one async for one in world.rt.schedules() if one.name == "job"]
    assert "closed" in refused.outcomes["refused"]["error"]
    assert refused.last_tick == made.last_tick
    await world.rt.set_queue("closed", closed=False)
    await tick(world, 2)
    assert made.uid in [one.schedule_uid for one in await sessions(world)]
    (started,) = [one async for one in world.rt.schedules() if one.name == "job"]
    assert "refused" not in started.outcomes


async def test_damaged_schedule_does_not_stop_the_others(world: World) -> None:
    made = await add(world)
    other = await world.rt.add_schedule("other", report.bind(), every="10m")
    spoil = {"last_tick": made.last_tick, "next_due": made.next_due, "outcomes": "{"}
    await world.rt.store.write(Move("spoil", "plain", lambda tx: tx.run("schedule.advance", uid=made.uid, **spoil)))
    await tick(world)
    assert [one.schedule_uid for one in await sessions(world)] == [other.uid]
    due = await world.rt.schedule_handler.handle_due()
    assert (due or 0) > world.clock.now()  # it is not tried again at once


async def test_restored_tick_creates_the_same_session_again(world: World) -> None:
    made = await add(world)
    world.clock.advance(seconds=60 * 10)
    due = (made.last_tick or 0) // (10 * MINUTE) * 10 * MINUTE + 10 * MINUTE
    world.clock.advance(seconds=60 * 1)
    begin = Move("restore.begin", "plain", lambda tx: restore.begin(tx, Cause.DECLARED))
    world.rt.store.write_now(begin)  # the tick may have been handled in the time that was lost
    world.crash()
    await world.rt.schedule_handler.handle_due()
    (again,) = await sessions(world)
    store_id = world.rt.store.read_now(schedule.store_id)
    assert (again.scheduled_at, again.uid) == (due, tick_uid(store_id, made, due))
    assert world.rt.store.read_now(restore.unreleased_for, again.uid) is not None
    await world.rt.run(again.id)
    await tick(world, 10)
    later = (await sessions(world))[-1]
    assert world.rt.store.read_now(restore.unreleased_for, later.uid) is None


@pytest.mark.databases("memory")
async def test_wrong_definitions_are_refused(world: World) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"cron": "x"}, "not a cron expression"), ({"cron": "* * * * *", "timezone": "Mars"}, "no time zone"),
        ({"every": "0s"}, "period"), ({"every": "soon"}, "not a duration"), ({}, "either"),
        ({"every": "1m", "overlap": "x"}, "not one of"), ({"every": "1m", "catch_up": "x"}, "not one of"),
        ({"every": "1m", "jitter": "-1s"}, "not a duration"),
    ]  # fmt: skip
    for options, message in cases:
        with pytest.raises(ConfigError, match=message):
            await world.rt.add_schedule("job", report.bind(), **options)
    for name in ("", "a b", "x" * 151):
        with pytest.raises(ConfigError):
            await world.rt.add_schedule(name, report.bind(), every="1m")
    with pytest.raises(ConfigError, match="64 KiB"):
        await world.rt.add_schedule("job", report.bind(name="x" * 70_000), every="1m")
    with pytest.raises(ConfigError, match="without its arguments"):
        await world.rt.add_schedule("job", report, every="1m")  # type: ignore[arg-type]


async def test_jitter_delays_a_tick_and_not_its_nominal_time(world: World) -> None:
    made = await add(world, jitter="5m", overlap="cancel")
    start = (made.last_tick or 0) // (10 * MINUTE) * 10 * MINUTE
    world.clock.advance(seconds=60 * ((start + 9.9 * MINUTE - world.clock.now()) / MINUTE))
    for _ in range(120):
        await tick(world, 0.25)
    found = await sessions(world)
    assert [one.scheduled_at for one in found] == [start + n * 10 * MINUTE for n in (1, 2, 3)]
    assert all(0 <= one.created_at - (one.scheduled_at or 0) <= 5.5 * MINUTE for one in found)
