"""Approvals: bound to exactly what will be done, voted once per voter, consumed by one effect."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import perdure
from perdure import (
    ApprovalDenied,
    ApprovalExpired,
    ConfigError,
    Conflict,
    Gate,
    IllegalMove,
    PolicyDenied,
    Session,
    Tool,
    program,
    tool,
)
from perdure.domain.approval import Approval
from perdure.domain.effect import intent_digest
from perdure.runtime.ledger.policy import Intent
from perdure.store.inspection import damage
from perdure.store.moves import effect as effects
from perdure.store.moves import lease, quorum
from perdure.store.moves import session as sessions
from perdure.store.moves.effect_input import Dispatch
from tests.runtime.support.people import as_person, register
from tests.runtime.support.scripted_world import GATE, Outside, World
from tests.store.support.sessions import raw

pytestmark = pytest.mark.databases("sqlite", "postgres")
MEMORY = pytest.mark.databases("memory")


def once(tool: Tool[Any, Any]) -> Any:
    @program
    async def once(s: Session, n: int = 1) -> Any:
        try:
            return await s.do(tool, n=n)
        except (ApprovalDenied, ApprovalExpired, PolicyDenied) as error:
            return type(error).__name__

    return once


async def the_approval(world: World) -> Approval:
    (only,) = [one async for one in world.rt.approvals()]
    return only


async def test_a_gated_effect_waits_for_exactly_its_approval_and_survives_reopening(world: World) -> None:
    outside = Outside()
    act = outside.tool(gate=GATE, targets=("pr:{n}",))
    view = await world.run(once(act).bind(), owner="ada")
    asked = await the_approval(world)
    assert ([one.kind for one in view.waits], outside.calls) == (["approval"], [])
    assert asked.intent_digest == intent_digest("act", {"n": 1}, ["pr:1"])
    world.crash()
    assert (await world.again()).status == "waiting"
    await world.rt.approve(asked.id, by="grace", because="looks right")
    world.crash()
    view, now = await world.again(), await the_approval(world)
    assert (view.result, now.decision, now.consumed_by) == (7, "approved", (await world.effect()).id)


async def test_an_approval_by_weaker_rules_is_not_enough_for_a_stricter_gate(world: World) -> None:
    outside = Outside()
    act = outside.tool(gate=GATE)
    await world.run(once(act).bind(), owner="ada")
    first = await the_approval(world)
    await world.rt.approve(first.id, by="grace", because="looks right")
    act.gate = Gate("merge", quorum=2)
    register(world.rt.store, "grace", "linus")
    (asked,) = (await world.again()).waits
    assert (asked.kind, asked.id != first.id, outside.calls) == ("approval", True, [])
    with as_person("grace"):
        await world.rt.approve(asked.id, by="grace", because="looks right")
    assert (await world.again()).status == "waiting"
    with as_person("linus"):
        await world.rt.approve(asked.id, by="linus", because="looks right")
    view = await world.again()
    assert (view.status, len(outside.calls)) == ("done", 1)
    assert [one.consumed_by is None async for one in world.rt.approvals()] == [True, False]
    assert await world.rt.store.read(damage.of_session, view.uid) == []


@pytest.mark.parametrize("replay", ["pure", "idempotent", "joint"])
async def test_a_gate_holds_for_every_rule(world: World, replay: str) -> None:
    from perdure import Transaction, tool

    ran: list[int] = []

    if replay == "joint":

        @tool(replay="joint", gate=GATE)
        def act(tx: Transaction, n: int) -> int:
            ran.append(n)
            return 7

        gated: Tool[Any, Any] = act
    else:
        outside = Outside()
        ran = outside.calls  # type: ignore[assignment]
        gated = outside.tool(replay, gate=GATE)
    await world.run(once(gated).bind())
    assert ran == []
    await world.rt.approve((await the_approval(world)).id, by="grace", because="yes")
    assert ((await world.again()).result, len(ran)) == (7, 1)


async def test_denied_raises_in_every_run_and_never_acts(world: World) -> None:
    outside = Outside()
    await world.run(once(outside.tool(gate=GATE)).bind())
    await world.rt.deny((await the_approval(world)).id, by="grace", because="not on a Friday")
    view = await world.again()
    assert (view.result, outside.calls, (await world.effect()).state) == ("ApprovalDenied", [], "refused")


async def test_an_approval_without_votes_expires(world: World) -> None:
    outside = Outside()
    await world.run(once(outside.tool(gate=GATE)).bind())
    asked = await the_approval(world)
    world.clock.advance(hours=1)
    with pytest.raises(IllegalMove, match="expired"):
        await world.rt.approve(asked.id, by="grace", because="late")
    view = await world.again()
    assert (view.result, outside.calls, (await the_approval(world)).decision) == ("ApprovalExpired", [], "expired")


async def test_one_vote_per_voter_a_quorum_and_the_requester_barred(world: World) -> None:
    act = Outside().tool(gate=Gate("merge", quorum=2))
    await world.run(once(act).bind(), owner="ada")
    asked = await the_approval(world)
    register(world.rt.store, "ada", "grace", "edsger", "barbara")
    with as_person("ada"), pytest.raises(IllegalMove, match="ada owns the change"):
        await world.rt.approve(asked.id, by="another", because="mine")
    with as_person("grace"):
        with pytest.raises(ConfigError, match="reason"):
            await world.rt.approve(asked.id, by="grace", because=" ")
        for _ in range(2):
            assert (await world.rt.approve(asked.id, by="grace", because="fine")).decision is None
        with pytest.raises(Conflict, match="voted"):
            await world.rt.deny(asked.id, by="grace", because="on second thoughts")
    assert (await world.again()).status == "waiting"
    with as_person("edsger"):
        assert (await world.rt.approve(asked.id, by="edsger", because="fine")).decision == "approved"
    with as_person("barbara"), pytest.raises(IllegalMove, match="approved already"):
        await world.rt.deny(asked.id, by="barbara", because="too late")
    assert (await world.again()).result == 7


@MEMORY
async def test_the_requester_decides_if_the_gate_allows_it(world: World) -> None:
    await world.run(once(Outside().tool(gate=Gate("own", requester_may_decide=True))).bind(), owner="ada")
    await world.rt.approve((await the_approval(world)).id, by="ada", because="mine")
    assert (await world.again()).result == 7


async def test_an_approval_covers_the_attempts_of_its_effect(world: World) -> None:
    outside = Outside("failed", "lost", "done")
    await world.run(once(outside.tool("idempotent", gate=GATE, retry=5)).bind())
    await world.rt.approve((await the_approval(world)).id, by="grace", because="yes")
    assert ((await world.again()).result, len(outside.calls)) == (7, 3)


async def test_an_approval_is_void_for_other_arguments(world: World) -> None:
    outside = Outside()
    act = outside.tool(gate=GATE)

    @program
    async def two(s: Session) -> list[int]:
        return list(await asyncio.gather(s.do(act, n=1), s.do(act, n=2)))

    await world.run(two.bind())
    asked = {one.effect_id: one async for one in world.rt.approvals()}
    first, second = await world.effects()
    await world.rt.approve(asked[first.id].id, by="grace", because="only this one")
    view = await world.again()
    assert ([call.effect_id for call in outside.calls], [one.ref for one in view.waits]) == ([first.id], [second.id])
    held = await world.rt.get("s")
    raw(world.rt.store, f"update effect set approval_id = '{asked[first.id].id}' where id = '{second.id}'")
    await world.rt.store.write(sessions.wake_up(held.uid, "a forger"))
    holder = await world.rt.store.write(lease.acquire(held.uid, "a forger", nonce="n-1", ttl=60))
    with pytest.raises(IllegalMove, match="no approval for exactly this"):
        await world.rt.store.write(effects.dispatch(holder, second.id, Dispatch(worker="w", process="{}")))


async def test_a_successor_is_another_effect_and_asks_again(world: World) -> None:
    outside = Outside("lost", "done")
    await world.run(once(outside.tool("compensate", gate=GATE)).bind())
    await world.rt.approve((await the_approval(world)).id, by="grace", because="yes")
    await world.again()
    world.clock.advance(seconds=31)
    view = await world.again()
    assert ([one.kind for one in view.waits], len(outside.calls), outside.undone) == (["approval"], 1, [None])
    second = [one async for one in world.rt.approvals(decision="waiting")]
    await world.rt.approve(second[0].id, by="grace", because="again")
    assert (await world.again()).result == 7


@MEMORY
@pytest.mark.parametrize(
    ("answer", "gate", "waits", "result"),
    [
        ("allow", None, [], 7), ("allow", GATE, ["approval"], None), ("ask", None, ["approval"], None),
        ("ask", GATE, ["approval"], None), ("deny", None, [], "PolicyDenied"), ("deny", GATE, [], "PolicyDenied"),
    ],
)  # fmt: skip
async def test_the_stricter_of_policy_and_gate_holds(
    world: World, answer: str, gate: Gate | None, waits: list[str], result: Any
) -> None:
    shown: list[Intent] = []
    outside = Outside()

    def rule(intent: Intent) -> str:
        shown.append(intent)
        return answer

    world.rt.policy._rule = rule
    view = await world.run(once(outside.tool(gate=gate, targets=("pr:{n}",))).bind(), owner="ada")
    assert ([one.kind for one in view.waits], view.result, bool(outside.calls)) == (waits, result, result == 7)
    assert (shown[0].tool, shown[0].arguments, shown[0].targets, shown[0].owner) == ("act", {"n": 1}, ["pr:1"], "ada")


async def test_a_planned_effect_is_gated_again(world: World) -> None:
    """What was allowed when it was planned may be forbidden, or need a person, when it would be dispatched again."""
    for then, kinds in (("deny", []), ("ask", ["approval"])):
        outside = Outside("died early", "done")
        world.rt.policy._rule = None
        act = outside.tool(name=f"act-{then}")
        await world.dies(once(act).bind(), then)
        world.rt.policy._rule = lambda intent, then=then: then
        await world.rt.run(then)
        await world.rt.settle((await world.effect(then)).id, "absent", by="ada", because="nothing there")
        world.clock.advance(seconds=31)
        plan = await world.rt.recovery_plan(then)
        view = await world.rt.run(then)
        assert ([one.kind for one in view.waits], len(outside.calls)) == (kinds, 1)
        assert [one.action for one in plan] == [{"deny": "refuse", "ask": "ask for approval"}[then]]
    (asked,) = [one async for one in world.rt.approvals(decision="waiting")]
    await world.rt.approve(asked.id, by="grace", because="yes")
    assert ((await world.rt.run("ask")).result, (await world.rt.get("deny")).result) == (7, "PolicyDenied")


async def test_a_policy_that_denies_overrides_a_given_approval(world: World) -> None:
    outside = Outside()
    await world.run(once(outside.tool(gate=GATE)).bind())
    await world.rt.approve((await the_approval(world)).id, by="grace", because="yes")
    world.rt.policy._rule = lambda intent: "deny"
    assert ((await world.again()).result, outside.calls) == ("PolicyDenied", [])


@MEMORY
async def test_an_invalid_policy_answer_allows_nothing(world: World) -> None:
    outside = Outside()
    world.rt.policy._rule = lambda intent: "maybe"
    view = await world.run(once(outside.tool()).bind())
    assert (view.status, view.error["code"], outside.calls) == ("failed", "config", [])


@pytest.mark.parametrize(
    "statement",
    [
        "update approval set decision = 'denied'", "update approval set consumed_by = null",
        "update approval set intent_digest = replace(intent_digest, '0', '1')", "update vote set decision = 'denied'",
    ],
)  # fmt: skip
async def test_the_database_keeps_what_was_decided(world: World, statement: str) -> None:
    await world.run(once(Outside().tool(gate=GATE)).bind())
    asked = await the_approval(world)
    if "0" not in asked.intent_digest:
        statement = statement.replace("'0'", f"'{asked.intent_digest[0]}'").replace("'1'", "'x'")
    await world.rt.approve(asked.id, by="grace", because="yes")
    await world.again()
    with pytest.raises(IllegalMove):
        raw(world.rt.store, statement)


@tool(gate=Gate("review-merge"))
def review_merge(n: int) -> int:
    return n


@program
async def review_merger(s: Session) -> int:
    return await s.do(review_merge, n=1)


async def test_the_owner_of_a_session_may_not_approve_what_it_asks_for() -> None:
    async with perdure.open("memory:", by="ada") as rt:
        await rt.start(review_merger.bind(), id="s", owner="ada")
        await rt.run("s")
        (asked,) = [one async for one in rt.approvals(decision="waiting")]
        with pytest.raises(perdure.IllegalMove):
            await rt.approve(asked.id, by="ada", because="mine")


async def test_reason_is_optional_unless_the_gate_requires_one(world: World) -> None:
    act = Outside().tool(gate=Gate("merge", reason="required"))
    await world.run(once(act).bind(), owner="ada")
    asked = await the_approval(world)
    for because in (None, "", " "):
        with pytest.raises(ConfigError, match="reason"):
            await world.rt.approve(asked.id, by="grace", because=because)
    assert (await world.rt.approve(asked.id, by="grace", because="fine")).decision == "approved"


async def test_vote_without_a_reason_decides(world: World) -> None:
    act = Outside().tool(gate=Gate("merge"))
    await world.run(once(act).bind(), owner="ada")
    asked = await the_approval(world)
    assert (await world.rt.deny(asked.id, by="grace")).decision == "denied"
    view = await world.again()
    assert view.result == "ApprovalDenied"
    (vote,) = await world.rt.store.read(quorum.votes, asked.session_uid, asked.id)
    assert (vote.voter, vote.decision, vote.rationale) == ("grace", "denied", "")


async def test_gate_that_now_requires_a_reason_asks_again(world: World) -> None:
    outside = Outside()
    act = outside.tool(gate=Gate("merge"))
    await world.run(once(act).bind(), owner="ada")
    asked = await the_approval(world)
    await world.rt.approve(asked.id, by="grace")
    act.gate = Gate("merge", reason="required")
    await world.again()
    assert outside.calls == []
    again = [one async for one in world.rt.approvals(decision="waiting")]
    assert [one.effect_id for one in again] == [asked.effect_id]


def test_reason_of_a_gate_is_checked_at_the_decorator() -> None:
    with pytest.raises(ConfigError, match="gate"):
        Outside().tool(gate=Gate("merge", reason="sometimes"))  # type: ignore[arg-type]
