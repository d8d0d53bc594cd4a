"""Secrets as arguments: only references are recorded, and every act of a tool gets the value."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from perdure import Call, ConfigError, Gate, NotDone, Secret, Session, StepFailed, Transaction, faults, program, tool
from perdure.ids import decode
from tests.runtime.support.scripted_world import World

VALUE = "a-value-of-a-test-1"
SHOWN = "[secret env:TEST_TOKEN]"
TOKEN = Secret("env:TEST_TOKEN")
pytestmark = [pytest.mark.anyio, pytest.mark.databases("sqlite")]


class Login(msgspec.Struct):
    user: str
    password: Secret


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_TOKEN", VALUE)


async def test_an_act_gets_the_value_wherever_the_secret_is_declared(world: World) -> None:
    seen: list[str | None] = []

    @tool(replay="pure")
    def logs_in(login: Login, others: list[Secret], extra: Secret | None = None, own: Secret = TOKEN) -> int:
        seen.extend(
            [login.password.reveal(), others[0].reveal(), own.reveal(), None if extra is None else extra.reveal()]
        )
        return len(VALUE)

    @program
    async def acts(s: Session) -> int:
        return await s.do(logs_in, Login("ada", TOKEN), [TOKEN])

    assert (await world.run(acts.bind())).result == len(VALUE)
    assert seen == [VALUE, VALUE, VALUE, None]
    assert (await world.effect()).intent == {
        "login": {"user": "ada", "password": "env:TEST_TOKEN"}, "others": ["env:TEST_TOKEN"], "extra": None,
        "own": "env:TEST_TOKEN",
    }  # fmt: skip


async def test_an_undo_and_a_joint_tool_get_the_value(world: World) -> None:
    undone: list[Any] = []

    @tool(replay="compensate")
    def opens(token: Secret) -> str:
        return f"opened with {token.reveal()}"

    @opens.undo
    def _(call: Call, result: str | None, token: Secret) -> None:
        undone.append((result, token.reveal()))

    @tool(replay="joint")
    def notes(tx: Transaction, token: Secret) -> str:
        ((found,),) = tx.execute("select ? || 'x'", [token.reveal()])
        return str(found)

    @program
    async def acts(s: Session) -> str:
        await s.do(opens, TOKEN)
        noted = await s.do(notes, TOKEN)
        await s.ask("Keep it?")
        return noted

    assert (await world.run(acts.bind())).status == "waiting"
    opened, noted = await world.effects()
    assert (decode(opened.result or ""), decode(noted.result or "")) == (f"opened with {SHOWN}", f"{SHOWN}x")
    await world.rt.undo(opened.id, by="ada", because="wrong")
    await world.again()
    assert undone == [(f"opened with {SHOWN}", VALUE)]
    assert VALUE not in str([one async for one in world.rt.events("s")])


async def test_an_undo_without_its_secret_is_asked_for_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    undone: list[str] = []

    @tool(replay="compensate")
    def opens(token: Secret) -> int:
        return 1

    @opens.undo
    def _(call: Call, result: int | None, token: Secret) -> None:
        undone.append(token.reveal())

    @program
    async def acts(s: Session) -> None:
        await s.do(opens, TOKEN)
        await s.ask("Keep it?")

    await world.run(acts.bind())
    monkeypatch.delenv("TEST_TOKEN")
    with pytest.raises(ConfigError, match="The secret env:TEST_TOKEN is not set"):
        await world.rt.undo((await world.effect()).id, by="ada", because="wrong")
    opened = await world.effect()
    assert (opened.state, opened.doubted_at, opened.undo_requested_at is None) == ("acknowledged", None, False)
    monkeypatch.setenv("TEST_TOKEN", VALUE)
    await world.again()
    assert (undone, (await world.effects())[0].state) == ([VALUE], "compensated")


async def test_an_approved_call_without_its_secret_stays_planned(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []

    @tool(gate=Gate("send"))
    def sends(token: Secret) -> None:
        sent.append(token.reveal())

    @program
    async def acts(s: Session) -> str:
        try:
            await s.do(sends, TOKEN)
        except ConfigError as error:
            return error.message
        return "sent"

    (wait,) = (await world.run(acts.bind(), owner="ada")).waits
    assert wait.detail["intent"] == {"token": "env:TEST_TOKEN"}
    await world.rt.approve(wait.id, by="grace", because="fine")
    monkeypatch.delenv("TEST_TOKEN")
    assert (await world.again()).result == "The secret env:TEST_TOKEN is not set in the environment of this process."
    effect = await world.effect()
    assert (effect.doubted_at, await world.attempts(effect), sent) == (None, [], [])


async def test_a_secret_that_disappears_before_the_act_proves_that_nothing_was_done(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    @tool(replay="escalate", retry=1)
    def sends(token: Secret) -> None:
        token.reveal()

    @program
    async def acts(s: Session) -> str:
        try:
            await s.do(sends, TOKEN)
        except NotDone as error:
            return error.message
        return "sent"

    faults.arm(lambda point: monkeypatch.delenv("TEST_TOKEN") if point == "act.before" else None)
    assert "The secret env:TEST_TOKEN is not set" in (await world.run(acts.bind())).result
    effect = await world.effect()
    assert (effect.state, await world.outcomes(effect)) == ("failed", ["failed"])


async def test_a_result_that_no_longer_fits_its_type_is_described(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_TOKEN", "12345678")

    @tool(replay="escalate")
    def counts(token: Secret) -> int:
        return int(token.reveal())

    @program
    async def acts(s: Session) -> None:
        await s.do(counts, TOKEN)

    await world.run(acts.bind())
    effect = await world.effect()
    assert (effect.state, effect.result) == ("acknowledged", "null")
    assert "It was done, but its result cannot be stored." in (effect.error or {})["message"]
    assert "12345678" not in (effect.error or {})["message"]


async def test_a_value_in_place_of_a_reference_is_refused_and_not_repeated(world: World) -> None:
    @tool
    def sends(token: Secret) -> None: ...

    @program
    async def acts(s: Session) -> None:
        await s.do(sends, token="ghp_a-real-token")  # type: ignore[call-overload]

    error = (await world.run(acts.bind())).error
    assert error is not None
    assert "sends: A secret is not a reference." in error["message"]
    assert "ghp_a-real-token" not in error["message"]
    assert await world.effects() == []


async def test_steps_take_references_and_their_results_are_redacted(world: World) -> None:
    def read(token: Secret) -> str:
        return f"read with {token.reveal()}"

    def fails(token: Secret) -> str:
        raise ValueError(token.reveal())

    @program
    async def acts(s: Session) -> list[str]:
        found = [await s.step("read", read, TOKEN)]
        try:
            await s.step("fails", fails, TOKEN)
        except StepFailed as error:
            found.append(error.message)
        return found

    result = (await world.run(acts.bind())).result
    assert result == [f"read with {SHOWN}", f"Step fails failed: ValueError: {SHOWN}"]
    assert VALUE not in str([one async for one in world.rt.events("s")])


async def test_what_a_program_records_after_reveal_has_markers(world: World) -> None:
    @program
    async def tells(s: Session, token: Secret) -> str:
        value = token.reveal()
        decision = await s.decide(f"use {value}", because=f"{value} works", then=f"send {value}")
        await decision.settle(f"{value} worked")
        task = await s.task(f"rotate {value}")
        await task.become("active", note=f"not {value}")
        await s.remember("token", {"is": [value]}, verify=f"try {value}")
        kept = await s.save(f"notes on {value}")
        await s.ask(f"Is it {value}?", choices=[value, "no"])
        return kept

    assert (await world.run(tells.bind(token=TOKEN))).status == "waiting"
    view = await world.again()
    assert view.waits[0].detail == {"question": f"Is it {SHOWN}?", "choices": [SHOWN, "no"]}
    await world.rt.answer(view.waits[0].id, "no")
    kept = (await world.again()).result
    assert await world.rt.artifact(kept) == f"notes on {SHOWN}".encode()
    tables = ("step", "event", "decision", "task", "fact", "wait")
    rows = world.rt.store.read_now(lambda tx: [tx.execute(f"select * from {one}", []) for one in tables])
    assert VALUE not in str(rows)
    assert [str(found).count(SHOWN) > 0 for found in rows[2:]] == [True] * 4


async def test_a_target_or_a_lease_with_a_value_is_refused(world: World) -> None:
    called: list[str] = []

    @tool(replay="pure", targets=["place:{place}"])
    def goes(place: str) -> None:
        called.append(place)

    @program
    async def acts(s: Session, token: Secret) -> str:
        try:
            await s.do(goes, f"x{token.reveal()}")
        except ConfigError as error:
            await s.do(goes, "y")
            return error.message
        return ""

    result = (await world.run(acts.bind(token=TOKEN))).result
    assert result == "A target or a lease of the call of goes contains a known secret; nothing was recorded."
    assert (called, (await world.effect()).targets) == (["y"], ["place:y"])
