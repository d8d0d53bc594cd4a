"""`s.receive()`: messages that are sent to a program."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pydantic
import pytest

import perdure
from perdure import ConfigError, Conflict, IllegalMove, Session, program
from perdure.runtime.definitions.program import PROGRAMS
from perdure.runtime.definitions.session_use import may_call
from perdure.store.moves import inbox
from tests.runtime.support.killed_calls import run_and_kill
from tests.runtime.support.receiving_app import Order, takes_orders
from tests.runtime.support.scripted_world import World
from tests.seed import kill_points

MEMORY = pytest.mark.databases("memory")
DURABLE = pytest.mark.databases("sqlite", "files", "postgres")
TWO = pytest.mark.databases("sqlite", "postgres")


class Invoice(pydantic.BaseModel):
    number: int
    file: Path


@dataclass
class Stop:
    reason: str


@program
async def takes_any(s: Session, number: int) -> list[Any]:
    return [await s.receive() for _ in range(number)]


@program
async def takes_orders_then_stop(s: Session) -> str:
    order = await s.receive(Order)
    await s.ask("Stop?")
    stop = await s.receive(Stop)
    return f"{order.item}, {stop.reason}"


@program
async def takes_invoice(s: Session) -> str:
    invoice = await s.receive(Invoice)
    return f"{invoice.number} {invoice.file.name}"


@program
async def takes_in_time(s: Session) -> list[Any]:
    taken: list[Any] = []
    try:
        taken.append(await s.receive(int, timeout="1h"))
    except TimeoutError as error:
        taken.append(str(error))
    return [*taken, await s.receive(int)]


@program
async def takes_side_by_side(s: Session) -> list[str]:
    first, second, number = await s.gather(s.receive(str), s.receive(str), s.receive(int))
    return [*sorted([first, second]), str(number)]


@program
async def restarts(s: Session, seen: list[str]) -> list[str]:
    seen = [*seen, await s.receive(str)]
    if len(seen) < 3:
        await s.restart(seen=seen)
    return seen


@program
async def asks_only(s: Session) -> str:
    return str(await s.ask("Now?"))


@DURABLE
async def test_messages_are_received_in_order_and_once(world: World) -> None:
    await world.rt.start(takes_orders.bind(3), id="s")
    await world.rt.send("s", {"item": "pens", "count": 2}, message_id="m-1")
    first = await world.again()
    assert (first.status, first.waits[0].kind, first.waits[0].detail["type"]) == ("waiting", "input", "Order")
    world.crash()
    for _ in range(2):
        await world.rt.send("s", {"item": "ink", "count": 1}, message_id="m-2")
    assert (await world.again()).status == "waiting"
    world.crash()
    await world.rt.send("s", Order("paper", 9), message_id="m-3")
    assert (await world.again()).result == ["2 pens", "1 ink", "9 paper"]
    assert await world.rt.store.read(inbox.unread, (await world.rt.get("s")).uid) == []
    world.verify()


@MEMORY
async def test_message_wakes_a_program_that_waits_in_memory(world: World) -> None:
    await world.rt.start(takes_any.bind(2), id="s")
    running = asyncio.ensure_future(world.rt.result("s"))
    async with perdure.Worker(world.rt):
        for body in ({"a": [1, None]}, None):
            await world.rt.send("s", body)
        assert await running == [{"a": [1, None]}, None]


@TWO
async def test_wrong_message_is_refused_where_the_type_is_awaited(world: World) -> None:
    await world.run(takes_orders.bind(1))
    wrong: list[Any] = ["pens", 7, None, ["pens", 2], {"item": "pens"}, {"item": "pens", "count": "two"}]
    for body in wrong:
        with pytest.raises(ConfigError, match="waits for a message of type Order, and the message"):
            await world.rt.send("s", body)
    assert "inbox.received" not in await world.kinds()
    await world.rt.send("s", {"item": "pens", "count": 2, "note": "a field more"})
    assert (await world.again()).result == ["2 pens"]


@TWO
async def test_wrong_message_that_came_earlier_stays_unread_and_is_shown(world: World) -> None:
    await world.rt.start(takes_orders_then_stop.bind(), id="s")
    await world.rt.send("s", {"reason": "no more money"}, message_id="m-stop")
    waiting = await world.again()
    why = waiting.waits[0].detail["why"]
    assert why.startswith("It must be of type Order. Not of this type, and left unread: m-stop (")
    await world.rt.send("s", {"item": "ink", "count": 1})
    asked = await world.again()
    await world.rt.answer(asked.waits[0].id, "yes")
    assert (await world.again()).result == "ink, no more money"
    world.verify()


@TWO
async def test_pydantic_messages_are_sent_and_received(world: World) -> None:
    await world.run(takes_invoice.bind())
    with pytest.raises(ConfigError, match="not of type object"):
        await world.rt.send("s", "7")
    await world.rt.send("s", {"number": "many", "file": "/tmp/a.pdf"}, message_id="m-1")
    waiting = await world.again()
    assert (waiting.status, "m-1 (" in waiting.waits[0].detail["why"]) == ("waiting", True)
    await world.rt.send("s", Invoice(number=7, file=Path("/tmp/b.pdf")))
    assert (await world.again()).result == "7 b.pdf"


@MEMORY
async def test_message_that_cannot_be_stored_is_not_sent(world: World) -> None:
    await world.run(takes_any.bind(1))
    for body in (object(), {"a": object()}, float("nan"), {"n": 2**60}):
        with pytest.raises(ConfigError):
            await world.rt.send("s", body)
    assert (await world.rt.get("s")).status == "waiting"


@MEMORY
async def test_type_without_a_stored_form_is_refused(world: World) -> None:
    @program
    async def takes_wrong(s: Session) -> None:
        await s.receive(list[Session])

    ended = await world.run(takes_wrong.bind())
    assert ended.error["code"] == ConfigError.code
    assert "messages of type list" in ended.error["message"]


@DURABLE
async def test_timeout_is_raised_in_every_run_and_the_late_message_is_kept(world: World) -> None:
    await world.run(takes_in_time.bind())
    world.crash()
    world.clock.advance(hours=1)
    waiting = await world.again()
    assert (waiting.status, waiting.waits[0].due_at) == ("waiting", None)
    await world.rt.send("s", 8)
    world.crash()
    assert (await world.again()).result == ["No message was received in time.", 8]


@MEMORY
async def test_message_in_time_ends_the_timeout(world: World) -> None:
    await world.run(takes_in_time.bind())
    await world.rt.send("s", 1)
    await world.again()
    world.clock.advance(hours=2)
    await world.rt.send("s", 2)
    assert (await world.again()).result == [1, 2]


@TWO
async def test_calls_side_by_side_receive_different_messages(world: World) -> None:
    await world.run(takes_side_by_side.bind())
    for body in ("b", 7, "a"):
        assert (await world.again()).status == "waiting"
        await world.rt.send("s", body)
        world.crash()
    assert (await world.again()).result == ["a", "b", "7"]
    world.verify()


@TWO
async def test_branch_inherits_what_was_received_and_not_what_is_unread(world: World) -> None:
    await world.rt.start(takes_any.bind(2), id="s")
    await world.rt.send("s", "first")
    waiting = await world.again()
    await world.rt.send("s", "second")
    branch = await world.rt.fork("s", at=waiting.cursor + 1, id="b")
    assert (await world.again()).result == ["first", "second"]
    assert (await world.rt.run(branch.id)).status == "waiting"
    await world.rt.send("b", "other")
    assert (await world.rt.run("b")).result == ["first", "other"]
    world.verify("b")


@TWO
async def test_restarted_program_receives_the_next_message(world: World) -> None:
    await world.rt.start(restarts.bind([]), id="s")
    for body in "abc":
        await world.rt.send("s", body)
    assert (await world.again()).result == ["a", "b", "c"]


@MEMORY
async def test_wait_for_a_message_is_neither_answered_nor_closed(world: World) -> None:
    waiting = await world.run(takes_any.bind(1))
    with pytest.raises(ConfigError, match="waits for a message"):
        await world.rt.answer(waiting.waits[0].id, "yes")
    with pytest.raises(IllegalMove, match="not closed"):
        await world.rt.close_session("s")
    await world.rt.send("s", 1, message_id="m")
    with pytest.raises(Conflict):
        await world.rt.send("s", 2, message_id="m")


@MEMORY
async def test_message_is_refused_only_where_it_is_known_that_none_is_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.run(asks_only.bind(), "asks")
    await world.rt.start(takes_in_time.bind(), id="takes")
    for loaded in (True, False):
        if not loaded:
            monkeypatch.delitem(PROGRAMS, "asks_only")
            monkeypatch.delitem(PROGRAMS, "takes_in_time")
        with pytest.raises(ConfigError, match="reads no messages"):
            await world.rt.send("asks", 1)
        await world.rt.send("takes", 1)


async def passes_on(s: Session) -> None:
    await helper(s)


async def helper(s: Session) -> None: ...


async def never(s: Session) -> None:
    async def inner() -> None:
        await s.sleep(1)

    await s.gather(inner())


def test_source_shows_whether_a_program_may_receive() -> None:
    assert [may_call(one, "receive") for one in (passes_on, never)] == [True, False]
    assert may_call(takes_any.function, "receive")
    made: dict[str, Any] = {}
    exec("async def unseen(s): await s.sleep(1)", made)
    assert may_call(made["unseen"], "receive")


RUNS_AND_SENDS = """
import tests.runtime.support.receiving_app as app
await rt.run("s")
await rt.send("s", app.Order("ink", 1), message_id="m-2", by="ada")
"""


@pytest.mark.slow
@TWO
async def test_kill_at_any_moment_loses_no_message_and_doubles_none(target: str) -> None:
    code = -1
    for kill_at in kill_points(200, every=3):
        async with perdure.open(target) as rt:
            id = f"s-{kill_at}"
            await rt.start(takes_orders.bind(2), id=id)
            await rt.send(id, Order("pens", 2), message_id="m-1")
            code = await run_and_kill(target, RUNS_AND_SENDS.replace('"s"', repr(id)), kill_at)
            await rt.send(id, Order("ink", 1), message_id="m-2", by="ada")
            assert (await rt.complete(id)).result == ["2 pens", "1 ink"]
            assert [one.kind async for one in rt.events(id)].count("message") == 2
        if code == 0:
            break
    assert (code, kill_at > 8) == (0, True)
