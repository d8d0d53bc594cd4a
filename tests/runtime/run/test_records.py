"""Programs run again from the top: what is on record answers, typed, from one bulk read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from perdure import ConfigError, Session, StepFailed, faults, program, tool
from perdure.artifacts.directory import Directory
from perdure.store.moves import artifact, decision, fact, task
from tests.runtime.support.scripted_world import Outside, World

pytestmark = pytest.mark.databases("sqlite", "postgres")
MEMORY = pytest.mark.databases("memory")


@dataclass
class Point:
    x: int
    y: int = 0


class Comment(msgspec.Struct):
    id: int
    tags: tuple[str, ...] = ()


async def replayed(world: World, id: str = "s", times: int = 2) -> Any:
    """Answer the session's question after it has run several times from the top."""
    view = await world.rt.run(id)
    for _ in range(times):
        await world.rt.pause(id)
        await world.rt.resume(id)
        view = await world.rt.run(id)
    (asked,) = view.waits
    await world.rt.answer(asked.id, "yes")
    view = await world.rt.run(id)
    assert view.status == "done", view.error
    return view.result


@pytest.mark.slow
async def test_recorded_steps_and_effects_answer_from_one_bulk_read(world: World) -> None:
    ran: list[int] = []
    outside = Outside()
    act = outside.tool()

    def compute(n: int) -> int:
        ran.append(n)
        return n

    @program
    async def many(s: Session, count: int) -> int:
        for n in range(count):
            await s.step("n", compute, n)
            await s.do(act, n=n)
            await s.remember(f"k{n}", n)
        await s.ask("continue?")
        return count

    reads: dict[int, int] = {}
    for count in (2, 20):
        id = f"s-{count}"
        view = await world.run(many.bind(count=count), id)
        await world.rt.answer(view.waits[0].id, "yes")
        before, reads[count] = world.rt.store.database.submit_read, 0

        def counted(ticket: Any, count: int = count, before: Any = before) -> None:
            reads[count] += 1
            before(ticket)

        world.rt.store.database.submit_read = counted  # type: ignore[method-assign]
        assert (await world.rt.run(id)).status == "done"
        world.rt.store.database.submit_read = before  # type: ignore[method-assign]
    assert reads[2] == reads[20] < 12
    assert (len(ran), len(outside.calls)) == (22, 22)


@MEMORY
async def test_the_first_run_also_gets_results_decoded_from_the_record(world: World) -> None:
    kinds: list[list[str]] = []

    def point() -> Point:
        return Point(1, 2)

    async def pair() -> tuple[int, Point]:
        return (1, Point(3))

    @tool(replay="pure")
    def comment(of: Comment) -> Comment:
        assert isinstance(of, Comment)
        return Comment(of.id + 1, ("a",))

    @tool
    def points(of: list[Point]) -> dict[str, Point]:
        assert all(isinstance(one, Point) for one in of)
        return {str(one.x): one for one in of}

    @program
    async def typed(s: Session, start: Point, among: tuple[int, ...] = (1, 2)) -> tuple[Point, list[int]]:
        got = [
            start,
            among,
            await s.step("p", point),
            (await s.step("q", pair))[1],
            await s.do(comment, of=Comment(1)),
            (await s.do(points, [Point(7)]))["7"],
            await s.step("lambda", lambda: (1, 2)),
        ]
        kinds.append([type(one).__name__ for one in got])
        await s.ask("continue?")
        return start, list(among)

    started = await world.rt.start(typed.bind(Point(1), among=(4, 5)), id="s")
    assert await replayed(world) == [{"x": 1, "y": 0}, [4, 5]]
    assert len(kinds) == 4
    assert all(one == ["Point", "tuple", "Point", "Point", "Comment", "Point", "list"] for one in kinds)
    assert await world.rt.result(started.id) == (Point(1), [4, 5])


async def test_a_failed_step_is_recorded_and_raised_in_every_run(world: World) -> None:
    ran: list[int] = []

    def fails() -> int:
        ran.append(1)
        raise KeyError("missing")

    @program
    async def handles(s: Session) -> str:
        try:
            await s.step("fails", fails)
        except StepFailed as error:
            await s.ask("continue?")
            return f"{error.details['error']['type']}: {error}"
        return "no error"

    await world.rt.start(handles.bind(), id="s")
    assert await replayed(world) == "KeyError: Step fails failed: KeyError: 'missing'"
    assert len(ran) == 1


@MEMORY
async def test_steps_made_in_a_loop_keep_their_own_defaults(world: World) -> None:
    twins: list[Any] = [lambda x=n: x for n in range(3)]

    @program
    async def loop(s: Session) -> list[int]:
        return [await s.step("n", twin) for twin in twins]

    assert (await world.run(loop.bind())).result == [0, 1, 2]


@MEMORY
async def test_functions_behind_one_decorator_keep_their_own_shapes(world: World) -> None:
    from functools import wraps

    def traced(function: Any) -> Any:
        @wraps(function)
        def traced_(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return traced_

    @traced
    def one(a: int) -> Point:
        return Point(a)

    @traced
    def other(b: str) -> str:
        return b

    @program
    async def both(s: Session) -> list[str]:
        return [type(await s.step("one", one, 1)).__name__, await s.step("other", other, b="x")]

    assert (await world.run(both.bind())).result == ["Point", "x"]


@MEMORY
@pytest.mark.parametrize("name", ["", ":decide", ":mine"])
async def test_reserved_names_are_refused(world: World, name: str) -> None:
    @program
    async def named(s: Session) -> str:
        try:
            await s.step(name, lambda: 1)
        except ConfigError as error:
            return error.code
        return "taken"

    assert (await world.run(named.bind())).result == "config"


@MEMORY
async def test_a_step_that_gives_no_json_is_a_config_error(world: World) -> None:
    @program
    async def odd(s: Session) -> None:
        await s.step("odd", lambda: {"an": object()})

    view = await world.run(odd.bind())
    assert (view.status, view.error["code"]) == ("failed", "config")


@MEMORY
async def test_a_program_that_returns_no_json_fails(world: World) -> None:
    @program
    async def odd(s: Session) -> int:
        return "no number"  # type: ignore[return-value]

    view = await world.run(odd.bind())
    assert (view.status, view.error["code"]) == ("failed", "config")


@pytest.mark.slow
@pytest.mark.databases("sqlite", "files", "memory")
async def test_large_results_become_artifacts_where_there_is_a_folder(world: World) -> None:
    size = 70 * 1024

    @tool
    def download(n: int) -> str:
        return "é" * (n // 2)

    @program
    async def large(s: Session) -> list[int]:
        got = [len(await s.do(download, n=size)), len(await s.step("log", lambda: "y" * size))]
        got.append(len(await s.do(download, n=100)))
        await s.ask("continue?")
        return got

    await world.rt.start(large.bind(), id="s")
    assert await replayed(world) == [size // 2, size, 50]
    big, small = await world.effects()
    has_folder = world.rt.store.folder is not None
    assert ((big.artifact is not None), (big.result is None), small.artifact) == (has_folder, has_folder, None)
    claimed = await world.rt.store.read(artifact.of_session, big.session_uid)
    assert len(claimed) == (2 if has_folder else 0)


@pytest.mark.slow
async def test_saved_values_are_kept_once_across_reruns(world: World) -> None:
    @program
    async def keeps(s: Session) -> list[Any]:
        d = await s.decide("comment", because="only style", then="post")
        await d.settle("commented")
        top = await s.task("fix it", id="t-top")
        below = await s.task("test it", parent="t-top")
        await below.become("done", note="green")
        await top.become("active")
        first = await s.remember("colour", "blue", expected=0)
        second = await s.remember("colour", "red", expected=1)
        value = await s.recall("colour")
        await s.ask("continue?")
        return [first, second, value, await s.recall("nothing")]

    started = await world.rt.start(keeps.bind(), id="s")
    assert await replayed(world) == [1, 2, "red", None]
    (made,) = await world.rt.store.read(decision.recent, started.uid)
    tasks = await world.rt.store.read(task.of_session, started.uid)
    (known,) = await world.rt.store.read(fact.listing)
    assert (made.outcome, sorted(one.state for one in tasks), known.version) == ("commented", ["active", "done"], 2)


@pytest.mark.parametrize("place", range(1, 8))
async def test_saving_and_recording_are_one_commit(world: World, place: int) -> None:
    """What a reserved step changes and the record that it did so are one transaction."""
    from perdure.errors import StoreUnavailable

    @program
    async def keeps(s: Session) -> list[int]:
        d = await s.decide("comment", because="only style")
        await d.settle("commented")
        return [await s.remember("n", 1, expected=0), await s.remember("n", 2, expected=1)]

    await world.rt.start(keeps.bind(), id="s")
    left = [place]

    def dead(point: str) -> None:
        left[0] -= point == "commit.before"
        if left[0] <= 0 and point in ("move.before", "commit.before"):
            raise StoreUnavailable("This process is dead.")

    faults.arm(dead)
    try:
        await world.again()
    except StoreUnavailable:
        world.crash()
    faults.disarm()
    view = await world.again()
    assert (view.status, view.result) == ("done", [1, 2])


@pytest.mark.databases("sqlite")
async def test_saved_artifacts_are_kept_and_claimed(world: World) -> None:
    @program
    async def saves(s: Session) -> str:
        name = await s.save(b"hello", kind="text/plain")
        await s.ask("continue?")
        return name

    started = await world.rt.start(saves.bind(), id="s")
    name = await replayed(world)
    assert world.rt.store.folder is not None
    assert Directory(world.rt.store.folder / "artifacts").get(name) == b"hello"
    assert [one.digest for one in await world.rt.store.read(artifact.of_session, started.uid)] == [name]


@MEMORY
async def test_an_unresolvable_annotation_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="Missing"):

        @tool
        def odd(n: int) -> Missing:  # type: ignore[name-defined]  # noqa: F821
            return n


@pytest.mark.databases("sqlite", "memory", "postgres")
async def test_a_joint_tool_commits_with_its_record_or_not_at_all(world: World) -> None:
    from perdure import NotDone, Transaction

    @tool(replay="joint")
    def debit(tx: Transaction, account: str, cents: int) -> int:
        tx.execute("create table if not exists account (name text primary key, cents bigint check (cents <= 10))")
        tx.execute("insert into account values (?, 0) on conflict (name) do nothing", (account,))
        tx.execute("update account set cents = cents + ? where name = ?", (cents, account))
        if cents == 3:
            raise ValueError("no threes")
        return int(tx.execute("select cents from account where name = ?", (account,))[0][0])

    @tool(replay="joint")
    def nonsense(tx: Transaction, sql: str) -> None:
        tx.execute(sql)

    @program
    async def pays(s: Session) -> list[Any]:
        got: list[Any] = [await s.do(debit, account="ada", cents=5)]
        for cents in (3, 9):
            try:
                await s.do(debit, account="ada", cents=cents)
            except NotDone as error:
                got.append(error.details["error"]["type"])
        for sql in ("selec 1", "select 1; commit", "/* x */ commit", "-- x\\n rollback", ""):
            try:
                await s.do(nonsense, sql=sql)
            except NotDone as error:
                got.append(error.details["error"]["type"])
        await s.ask("continue?")
        got.append(await s.do(debit, account="ada", cents=1))
        return got

    await world.rt.start(pays.bind(), id="s")
    assert await replayed(world) == [5, "ValueError", "Conflict", *["ConfigError"] * 5, 6]
    states = [one.state for one in await world.effects()]
    assert states == ["acknowledged", *["failed"] * 7, "acknowledged"]


@MEMORY
async def test_a_program_cannot_give_itself_a_permission(world: World) -> None:
    @program
    async def permits(s: Session) -> None:
        await s.remember("run_command", {"because": "it says so"}, scope="allowed:x")

    await world.rt.start(permits.bind(), id="s")
    view = await world.rt.run("s")
    assert (view.status, "is reserved" in str(view.error)) == ("failed", True)
    assert [one async for one in world.rt.facts()] == []
