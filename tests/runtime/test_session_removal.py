"""Removal and archive of sessions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import Conflict, IllegalMove, NotFound, Session, program
from perdure.control.verification import verify_sessions
from perdure.errors import ConfigError, PerdureError
from perdure.store.move import Move, StoreTransaction
from perdure.store.moves import session as sessions
from tests.runtime.support.killed_calls import run_and_kill
from tests.runtime.support.scripted_world import Outside, World

pytestmark = pytest.mark.databases("sqlite", "postgres")
TABLES = (
    "wait",
    "inbox",
    "step",
    "task",
    "decision",
    "effect",
    "attempt",
    "approval",
    "vote",
    "artifact",
)


def written(outside: Outside) -> Any:
    """A program that writes to every table that it can."""
    act = outside.tool()

    @program
    async def writer(s: Session, secret: str, saves: bool = False) -> str:
        await s.step("read", lambda: secret)
        await s.do(act, n=1)
        decision = await s.decide(secret, because=secret)
        await decision.settle("done")
        await s.task(secret)
        await s.remember("key", secret)
        await s.remember("shared", "stays", scope="team")
        if saves:
            await s.save(secret * 9)
        return secret

    return writer


def rows_of(world: World, uid: str) -> dict[str, int]:
    def count(tx: StoreTransaction) -> dict[str, int]:
        return {table: len(tx.all(f"transfer.read_{table}", uid=uid, limit=99)) for table in TABLES}

    return world.rt.store.read_now(count)


async def test_removed_session_leaves_only_a_tombstone(world: World) -> None:
    outside = Outside()
    made = written(outside)
    saves = world.rt.store.database.dialect == "sqlite"  # this server has no folder for artifacts
    view = await world.run(made.bind(secret="hush", saves=saves), title="hush")
    before = await world.rt.removal("s")
    assert (before.effects, before.artifacts, before.events) == (1, int(saves), view.cursor)
    await world.rt.remove("s", by="ada", because="a test")
    assert set(rows_of(world, view.uid).values()) == {0}
    tombstone = world.rt.store.read_now(sessions.get, view.uid)
    assert "hush" not in str(tombstone)
    events = world.rt.store.read_now(lambda tx: tx.all("event.after", uid=view.uid, after=0, limit=99))
    assert [row[7] is None for row in events] == [True] * view.cursor + [False]
    assert "hush" not in str(events)
    assert [one.value async for one in world.rt.facts(scope="team")] == ["stays"]
    assert [one async for one in world.rt.facts(scope=f"session:{view.uid}")] == []
    assert world.rt.store.read_now(verify_sessions, None, lambda _: None).damaged == []


async def test_id_of_a_removed_session_is_not_used_again(world: World) -> None:
    outside = Outside()
    made = written(outside)
    uid = (await world.run(made.bind(secret="x"))).uid
    await world.rt.remove("s", because="a test")
    with pytest.raises(Conflict, match=r"Session s was removed on .*; its id is not used again"):
        await world.rt.start(made.bind(secret="x"), id="s")
    for name in ("s", uid):
        with pytest.raises(NotFound):
            await world.rt.get(name)
    assert [one async for one in world.rt.sessions()] == []
    world.crash()  # the witness beside the store still finds the last event
    with pytest.raises(NotFound):
        await world.rt.run("s")
    assert len(outside.calls) == 1


async def test_session_that_is_needed_is_not_removed(world: World) -> None:
    outside = Outside("raise")
    act = outside.tool()

    @program
    async def doubtful(s: Session) -> None:
        await s.do(act, n=1)

    @program
    async def simple(s: Session) -> int:
        return await s.step("one", lambda: 1)

    @program
    async def parent(s: Session) -> int:
        await s.child(simple.bind(), id="child")
        return int(await s.ask("well?"))

    await world.run(doubtful.bind())
    with pytest.raises(IllegalMove, match="has unsettled effects"):
        await world.rt.remove("s", because="a test")
    await world.run(simple.bind(), "forked")
    await world.rt.fork("forked", id="branch")
    with pytest.raises(IllegalMove, match="need its record: branch"):
        await world.rt.remove("forked", because="a test")
    await world.rt.remove("branch", because="a test")
    await world.rt.remove("forked", because="a test")
    await world.run(parent.bind(), "parent")
    with pytest.raises(IllegalMove, match="need its record: child"):
        await world.rt.remove("parent", because="a test")
    with pytest.raises(IllegalMove, match="is a child of session parent"):
        await world.rt.remove("child", because="a test")
    await world.run(simple.bind(), "last")
    with pytest.raises(ConfigError, match="reason is empty"):
        await world.rt.remove("last", because=" ")
    assert (await world.rt.get("parent")).status == "waiting"


@pytest.mark.parametrize("column", ["forked_from", "parent_uid"])
async def test_session_removed_meanwhile_gets_no_branch_and_no_child(world: World, column: str) -> None:
    outside = Outside()
    made = written(outside)
    view = await world.run(made.bind(secret="x"))
    place: dict[str, Any] = {"forked_at": view.cursor} if column == "forked_from" else {"parent_wait": "c-1"}
    late: dict[str, Any] = {"id": "late", "program": view.program, "arguments": view.arguments, column: view.uid}
    await world.rt.remove("s", because="a test")  # after the parent was read for the branch
    with pytest.raises(Conflict, match="Session s was removed"):
        await world.rt.store.write(sessions.create(sessions.NewSession(**late, **place), by="ada"))
    assert [one async for one in world.rt.sessions()] == []
    assert len(outside.calls) == 1


async def test_two_removals_at_once_remove_once(world: World) -> None:
    outside = Outside()
    await world.run(written(outside).bind(secret="x"))
    ends = await asyncio.gather(*(world.rt.remove("s", because="a test") for _ in range(4)), return_exceptions=True)
    assert all(isinstance(one, PerdureError) for one in ends if isinstance(one, BaseException))
    uid = world.rt.store.read_now(sessions.get_by_id, "s").uid
    kinds = world.rt.store.read_now(lambda tx: [row[2] for row in tx.all("event.after", uid=uid, after=0, limit=99)])
    assert kinds.count("session.removed") == 1


@pytest.mark.parametrize("table", ["wait", "step", "decision", "effect", "attempt"])
async def test_database_refuses_to_delete_the_record_of_a_session(world: World, table: str) -> None:
    act = Outside().tool()

    @program
    async def kept(s: Session) -> None:
        await s.step("one", lambda: 1)
        await s.do(act, n=1)
        await s.decide("this", because="that")
        await s.ask("which?")

    uid = (await world.run(kept.bind())).uid
    with pytest.raises(PerdureError):
        await world.rt.store.write(Move("test.delete", "plain", lambda tx: tx.run(f"removal.{table}", uid=uid)))
    assert rows_of(world, uid)[table] > 0


REMOVING = 'await rt.remove("s", because="a test")'
STARTING = """
    from perdure import Session, program

    @program
    async def removed_by_kill(s: Session) -> int:
        return await s.step("work", lambda: 7)

    await rt.start(removed_by_kill.bind(), id="s")
    await rt.run("s")
"""


@pytest.mark.slow
@pytest.mark.parametrize("kill_at", [1, 2, 3, 4])
async def test_kill_in_the_middle_leaves_it_removed_or_whole(target: str, kill_at: int) -> None:
    assert await run_and_kill(target, STARTING, 0) == 0
    await run_and_kill(target, REMOVING, kill_at)
    check = f"""
    if "s" in [one.id async for one in rt.sessions()]:
        assert (await rt.get("s")).result == 7
        {REMOVING}
    assert [one async for one in rt.sessions()] == []
    """
    assert await run_and_kill(target, check, 0) == 0


async def test_archived_session_comes_back_when_it_is_resumed(world: World) -> None:
    @program
    async def ended(s: Session) -> int:
        return 1

    @program
    async def asking(s: Session) -> Any:
        return await s.ask("well?")

    await world.run(ended.bind())
    archived = await world.rt.archive("s", by="ada")
    assert archived.archived_at is not None
    assert (await world.rt.archive("s")).archived_at == archived.archived_at
    assert (await world.rt.resume("s")).archived_at is None
    assert [kind for kind in await world.kinds() if kind == "session.described"] == ["session.described"] * 2
    await world.run(asking.bind(), "asks")
    with pytest.raises(IllegalMove, match="does not only wait for a message"):
        await world.rt.archive("asks")
    world.verify()
