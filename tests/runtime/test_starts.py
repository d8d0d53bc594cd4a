"""Starting sessions: options, debounce, sessions of the same key, closed and full queues, many at a time."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from perdure import ConfigError, Conflict, Program, QueueClosed, QueueFull, Session, program
from perdure.clock import SECOND
from perdure.runtime.start_options import StartOptions
from tests.runtime.support.killed_calls import run_and_kill
from tests.runtime.support.scripted_world import World
from tests.seed import kill_points

pytestmark = pytest.mark.databases("sqlite", "postgres")
Build = Program[[int], int]


@pytest.fixture
def build() -> Build:
    @program
    async def build(s: Session, n: int) -> int:
        return n

    return build


async def count(world: World) -> int:
    return len([one async for one in world.rt.sessions()])


async def test_options_reach_the_session(world: World, build: Build) -> None:
    now = world.clock.now()
    made = await world.rt.start(
        build.bind(1), queue="builds", priority=3, key="repo", retries=2, timeout="10m", pin=True, not_before="5m"
    )
    assert (made.queue, made.priority, made.concurrency_key, made.max_retries) == ("builds", 3, "repo", 2)
    assert (made.pinned_at, made.status) == (now, "waiting")
    assert made.deadline_at == now + 15 * 60 * SECOND  # from the time at which it may begin
    (asked,) = made.waits
    assert (asked.id, asked.kind, asked.due_at) == ("start", "timer", now + 300 * SECOND)
    assert (await world.again(made.id)).status == "waiting"
    world.clock.advance(seconds=300)
    assert (await world.again(made.id)).result == 1
    world.verify(made.id)


async def test_a_session_begins_at_a_time(world: World, build: Build) -> None:
    then = world.clock.now() + 60 * SECOND
    later = await world.rt.start(build.bind(1), not_before=then)
    aware = await world.rt.start(build.bind(2), not_before=datetime.fromtimestamp(then / SECOND, UTC))
    assert [one.waits[0].due_at for one in (later, aware)] == [then, then]
    past = await world.rt.start(build.bind(3), not_before=datetime(2000, 1, 1, tzinfo=UTC))
    assert past.status == "ready"


@pytest.mark.databases("memory")
@pytest.mark.parametrize(
    "wrong",
    [{"queue": ""}, {"queue": "a b"}, {"priority": 10**7}, {"priority": True}, {"retries": -1}, {"retries": 1001},
     {"timeout": 0}, {"timeout": "soon"}, {"not_before": "soon"}, {"not_before": -1}, {"not_before": 1.5},
     {"not_before": datetime(2030, 1, 1, tzinfo=UTC).replace(tzinfo=None)}, {"key": ""}, {"debounce": "5s"},
     {"on_conflict": "keep"},
     {"on_conflict": "fight", "key": "k"}, {"debounce": "5s", "key": "k", "not_before": "5s"}, {"key": "\ud800"},
     {"key": "k" * 501}, {"key": 3}, {"owner": 3}, {"queue": None}, {"pin": "yes"}, {"key": "k", "debounce": 0}],
)  # fmt: skip
async def test_wrong_options_are_refused_before_anything_is_written(
    world: World, build: Build, wrong: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError):
        await world.rt.start(build.bind(1), **wrong)
    assert await count(world) == 0


@pytest.mark.databases("memory")
def test_options_are_stored_and_read_back() -> None:
    made = StartOptions.read(queue="builds", key="k", timeout="1m", not_before="2m", on_conflict="keep", owner="ada")
    assert made.stored() == {
        "queue": "builds", "key": "k", "timeout": 60 * SECOND, "delay": 120 * SECOND, "on_conflict": "keep",
        "owner": "ada",
    }  # fmt: skip
    assert StartOptions.from_stored(made.stored()) == made
    assert StartOptions.from_stored({}).stored() == {}
    wrong: list[Any] = [{"queue": 3}, {"colour": "red"}, {"on_conflict": "fight"}, [], None]
    for damaged in wrong:
        with pytest.raises(ConfigError):
            StartOptions.from_stored(damaged)


async def test_start_is_idempotent_by_id_whatever_the_options(world: World, build: Build) -> None:
    first = await world.rt.start(build.bind(1), id="b", queue="builds", key="k")
    await world.rt.set_queue("builds", closed=True, max_depth=1)
    given: list[dict[str, Any]] = [{}, {"key": "k", "on_conflict": "keep"}, {"key": "k", "on_conflict": "replace"}]
    for more in given:
        assert (await world.rt.start(build.bind(1), id="b", queue="builds", priority=9, **more)) == first
    with pytest.raises(Conflict):
        await world.rt.start(build.bind(2), id="b", queue="builds")


async def test_closed_and_full_queues_refuse_new_sessions(world: World, build: Build) -> None:
    await world.rt.set_queue("builds", max_depth=2)
    await world.rt.start_many([build.bind(1), build.bind(2)], queue="builds")
    with pytest.raises(QueueFull, match="limit of 2") as full:
        await world.rt.start(build.bind(3), queue="builds")
    assert (full.value.code, full.value.retry) == ("queue-full", True)
    await world.rt.start(build.bind(3))  # another queue
    await world.rt.set_queue("builds", max_depth=None, closed=True)
    with pytest.raises(QueueClosed) as closed:
        await world.rt.start(build.bind(3), queue="builds")
    assert (closed.value.code, closed.value.retry) == ("queue-closed", True)
    await world.rt.set_queue("builds", closed=False)
    await world.rt.start(build.bind(3), queue="builds")


async def test_a_session_that_was_moved_out_does_not_fill_its_queue(world: World, build: Build) -> None:
    await world.rt.set_queue("builds", max_depth=1)
    await world.rt.start(build.bind(1), id="moved", queue="builds")
    await world.rt.export("moved", io.BytesIO(), move=True)
    assert (await world.rt.start(build.bind(2), queue="builds")).status == "ready"


async def test_children_start_in_a_closed_and_full_queue(world: World, build: Build) -> None:
    @program
    async def parent(s: Session) -> int:
        return await s.child(build.bind(7))

    started = await world.rt.start(parent.bind(), queue="builds")
    await world.rt.start(build.bind(1), queue="builds")
    await world.rt.set_queue("builds", closed=True, max_depth=1)
    assert (await world.rt.complete(started.id)).result == 7


async def test_debounced_requests_are_one_session_with_the_newest_arguments(world: World, build: Build) -> None:
    first = await world.rt.start(build.bind(1), id="one", key="repo", debounce="10s")
    world.clock.advance(seconds=9)
    for n in (2, 3):
        assert (await world.rt.start(build.bind(n), key="repo", debounce="10s")).id == "one"
    repeated = await world.rt.start(build.bind(1), id="one", key="repo", debounce="10s")
    assert (repeated.arguments, repeated.waits[0].due_at) == ({"n": 3}, first.waits[0].due_at)
    assert await world.kinds("one") == ["session.created", "wait.opened", "session.described", "session.described"]
    others: list[dict[str, Any]] = [{"key": "other"}, {"key": "repo", "queue": "builds"}]
    assert {(await world.rt.start(build.bind(1), debounce="10s", **one)).id == "one" for one in others} == {False}
    world.clock.advance(seconds=1)
    assert (await world.again("one")).result == 3
    world.verify("one")
    later = await world.rt.start(build.bind(4), key="repo", debounce="10s")
    assert (later.id != "one", later.arguments) == (True, {"n": 4})


async def test_debounce_does_not_change_a_session_that_was_only_delayed(world: World, build: Build) -> None:
    delayed = await world.rt.start(build.bind(1), key="repo", not_before="1h")
    made = await world.rt.start(build.bind(2), key="repo", debounce="10s")
    assert made.id != delayed.id
    assert (await world.rt.get(delayed.id)).arguments == {"n": 1}


async def test_a_resumed_or_interrupted_session_does_not_begin_before_its_time(world: World) -> None:
    @program
    async def asking(s: Session, n: int) -> str:
        return str(await s.ask(f"{n}?"))

    for id in ("paused", "interrupted"):
        await world.rt.start(asking.bind(1), id=id, key=id, debounce="10s")
    await world.rt.pause("paused")
    await world.rt.resume("paused")
    await world.rt.interrupt("interrupted")
    for id in ("paused", "interrupted"):
        assert [one.id for one in (await world.again(id)).waits] == ["start"]
        joined = await world.rt.start(asking.bind(2), key=id, debounce="10s")
        assert (joined.id, joined.arguments) == (id, {"n": 2})
    world.clock.advance(seconds=10)
    assert (await world.again("paused")).waits[0].detail["question"] == "2?"
    assert (await world.again("interrupted")).waits[0].kind == "paused"
    world.verify("paused")
    world.verify("interrupted")


async def test_a_session_of_the_same_key_is_kept(world: World, build: Build) -> None:
    there = await world.rt.start(build.bind(1), key="repo")
    assert (await world.rt.start(build.bind(2), key="repo", on_conflict="keep")) == there
    assert (await world.rt.start(build.bind(2), key="other", on_conflict="keep")).id != there.id
    assert (await world.rt.start(build.bind(2), key="repo", queue="builds", on_conflict="keep")).id != there.id
    await world.again(there.id)
    ended = await world.rt.start(build.bind(2), key="repo", on_conflict="keep")
    assert (ended.id != there.id, ended.arguments) == (True, {"n": 2})
    another = await world.rt.start(build.bind(3), key="repo")
    assert (another.id != ended.id, another.status) == (True, "ready")


async def test_sessions_of_the_same_key_are_replaced_with_their_children(world: World, build: Build) -> None:
    @program
    async def parent(s: Session) -> int:
        return await s.child(asking.bind())

    @program
    async def asking(s: Session) -> int:
        return int(await s.ask("How many?"))

    idle = await world.rt.start(build.bind(1), key="repo")
    busy = await world.run(parent.bind(), "p", key="repo")
    made = await world.rt.start(build.bind(2), key="repo", on_conflict="replace")
    assert (made.status, [(await world.rt.get(one.uid)).status for one in (idle, busy)]) == ("ready", ["cancelled"] * 2)
    (child,) = [one async for one in world.rt.sessions() if one.parent_uid == busy.uid]
    assert child.status == "cancelled"
    for one in (idle.id, busy.id, made.id, child.id):
        world.verify(one)


@pytest.mark.parametrize("option", [{"debounce": "10s"}, {"on_conflict": "keep"}])
async def test_concurrent_requests_get_one_session(world: World, build: Build, option: dict[str, Any]) -> None:
    runtimes = [world.rt, world.open(), world.open()]
    starts: list[Callable[[int], Any]] = [
        lambda n, rt=rt: rt.start(build.bind(n), key="repo", queue="builds", **option)  # type: ignore[misc]
        for rt in runtimes
    ]
    made = await asyncio.gather(*(starts[n % 3](n) for n in range(12)))
    for rt in runtimes[1:]:
        rt.close()
    assert len({one.uid for one in made}) == 1
    assert await count(world) == 1
    world.verify(made[0].id)


async def test_concurrent_replacements_leave_one_session(world: World, build: Build) -> None:
    other = world.open()
    await asyncio.gather(
        *(rt.start(build.bind(n), key="repo", on_conflict="replace") for n in range(4) for rt in (world.rt, other))
    )
    other.close()
    found = [one.status async for one in world.rt.sessions()]
    assert (found.count("ready"), found.count("cancelled")) == (1, 7)


async def test_many_sessions_are_started_and_a_repetition_starts_the_rest(world: World, build: Build) -> None:
    bounds, ids = [build.bind(n) for n in range(230)], [f"b-{n}" for n in range(230)]
    await world.rt.start_many(bounds[:120], ids=ids[:120], queue="builds")
    assert await world.rt.start_many(bounds, ids=ids, queue="builds", priority=5) == ids
    assert await count(world) == 230
    assert (await world.rt.get("b-7")).priority == 0
    assert (await world.rt.get("b-229")).priority == 5
    assert await world.rt.start_many([]) == []
    for wrong in (ids[:3], [*ids[:229], "b-0"]):
        with pytest.raises(ConfigError):
            await world.rt.start_many(bounds, ids=wrong)


async def test_concurrent_bulk_starts_of_the_same_ids_do_not_block_each_other(world: World, build: Build) -> None:
    other, numbers = world.open(), list(range(90))
    orders = [(world.rt, numbers), (other, numbers[::-1])] * 3
    made = await asyncio.gather(
        *(rt.start_many([build.bind(n) for n in order], ids=[f"b-{n}" for n in order]) for rt, order in orders)
    )
    other.close()
    assert made == [[f"b-{n}" for n in order] for _, order in orders]
    assert await count(world) == 90


async def test_a_batch_that_does_not_fit_starts_nothing(world: World, build: Build) -> None:
    await world.rt.set_queue("builds", max_depth=3)
    with pytest.raises(QueueFull):
        await world.rt.start_many([build.bind(n) for n in range(4)], queue="builds")
    assert await count(world) == 0


STARTS = """
@perdure.program
async def asking(s: perdure.Session) -> str:
    return await s.ask("Which?")

@perdure.program
async def parent(s: perdure.Session) -> str:
    return await s.child(asking.bind(), id="child")

@perdure.program
async def build(s: perdure.Session, n: int) -> int:
    return n

await rt.start(parent.bind(), id="old", key="repo")
await rt.run("old")
await rt.start(build.bind(1), id="new", key="repo", on_conflict="replace")
await rt.start(build.bind(1), id="late", key="other", debounce="1h")
await rt.start(build.bind(2), key="other", debounce="1h")
"""
CHECKED = """
if (await rt.get("old")).status == "ready":
    await rt.run("old")
found = {one.id: one async for one in rt.sessions()}
assert {id: one.status for id, one in found.items()} == {
    "old": "cancelled", "child": "cancelled", "new": "ready", "late": "waiting"}, found
assert found["late"].arguments == {"n": 2}
assert (await rt.verify()).damaged == []
"""


@pytest.mark.slow
@pytest.mark.parametrize("kill_at", kill_points(48, every=16))
async def test_a_kill_in_the_middle_of_starts_is_repaired_by_a_repetition(target: str, kill_at: int) -> None:
    await run_and_kill(target, STARTS, kill_at)
    assert await run_and_kill(target, STARTS + CHECKED, 0) == 0
