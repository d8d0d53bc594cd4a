"""The store's policy binds every process that runs its sessions, whatever code it has."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from perdure import Gate, Intent, Session, faults, program, tool
from perdure.domain.policy import shipped_text
from perdure.errors import ConfigError
from perdure.runtime.definitions.program import PROGRAMS
from perdure.runtime.deploy import missing_code
from perdure.runtime.ledger.policy import Policy
from perdure.runtime.queries import SessionView
from perdure.runtime.runtime import Runtime
from perdure.store.moves import exemption, policy
from perdure.store.store import open_store
from tests.runtime.support.scripted_world import Outside, World

pytestmark = [pytest.mark.anyio, pytest.mark.databases("sqlite", "postgres")]

DENY = """
default = "allow"

[[rule]]
name = "no-acts"
answer = "deny"
reason = "Acts are forbidden here."
tool = "act"
"""
ASK = DENY.replace('"deny"', '"ask"').replace("forbidden", "asked about")
ALLOW = 'default = "allow"\n'
GATED = (
    ASK
    + """
[rule.gate]
name = "release"
quorum = 1
requester_may_decide = true
expires = "2h"
"""
)


def declare(outside: Outside, **declared: Any) -> None:
    act = outside.tool(**declared)

    @program
    async def acts(s: Session, n: int) -> int:
        await s.ask("Now?")
        return await s.do(act, n=n)


async def asked_and_answered(world: World, name: str = "s", n: int = 2) -> SessionView:
    view = await world.run(PROGRAMS["acts"].bind(n=n), name)
    (asked,) = [one for one in view.waits if one.kind == "input"]
    await world.rt.answer(asked.id, "yes")
    return await world.again(name)


async def set_policy(world: World, source: str) -> None:
    """Another process sets the policy."""
    store = open_store(world.target, clock=world.clock)
    try:
        async with Runtime(store, by="grace") as other:
            await other.set_policy(source, because="a test")
    finally:
        store.close()


async def test_a_process_without_the_policy_object_is_bound(world: World) -> None:
    declare(outside := Outside())
    await set_policy(world, DENY)
    view = await asked_and_answered(world)
    assert (view.status, view.error["type"]) == ("failed", "PolicyDenied")
    effect = await world.effect()
    assert (effect.state, effect.policy_version, effect.rule) == ("refused", "1", "no-acts")
    assert outside.calls == []


async def test_a_policy_set_after_the_first_judgement_is_found_by_the_dispatch(world: World) -> None:
    act = Outside().tool()
    made: list[str] = []

    @program
    async def twice(s: Session, n: int) -> int:
        await s.do(act, n=n)
        made.append("first")
        await set_policy(world, DENY)
        return await s.do(act, n=n + 1)

    view = await world.run(twice.bind(n=1))
    assert (view.status, view.error["type"], made) == ("failed", "PolicyDenied", ["first"])
    first, second = sorted(await world.effects(), key=lambda one: one.number)
    assert (first.policy_version, second.policy_version) == ("0", "1")
    assert [one.policy_version for one in await world.attempts(first)] == ["0"]
    assert await world.attempts(second) == []


async def test_code_can_only_tighten_a_policy_that_was_set(world: World) -> None:
    declare(outside := Outside())
    await set_policy(world, DENY)
    world.rt.close()
    world.policy = lambda _: "allow"
    world.rt = world.open()
    assert (await asked_and_answered(world)).error["type"] == "PolicyDenied"
    await set_policy(world, ALLOW)
    world.rt.policy._rule = lambda intent: "deny" if intent.arguments["n"] == 3 else "allow"
    assert (await asked_and_answered(world, "t", 3)).error["type"] == "PolicyDenied"
    assert (await asked_and_answered(world, "u", 4)).result == 7
    assert len(outside.calls) == 1


async def test_every_demand_of_rules_and_gates_is_met_by_one_approval(world: World) -> None:
    declare(Outside(), gate=Gate("merge", quorum=1, expires="1h", requester_may_decide=False))
    await set_policy(world, GATED)
    view = await asked_and_answered(world)
    (asked,) = [one async for one in world.rt.approvals(session="s")]
    assert (asked.requester_may_decide, asked.expires_at) == (0, asked.asked_at + 3600 * 1_000_000)
    assert [one["rule"] for one in view.waits[0].detail["rules"]] == ["no-acts", "gate:merge"]
    await world.rt.approve(asked.id, by="ada")
    assert (await world.again()).result == 7
    effect = await world.effect()
    assert (effect.rule, effect.policy_version) == ("no-acts", "1")
    assert [(one.rule, one.policy_version) for one in await world.attempts(effect)] == [("no-acts", "1")]


async def test_a_rule_that_people_were_not_shown_opens_a_second_approval(world: World) -> None:
    declare(outside := Outside())
    await set_policy(world, GATED)
    await asked_and_answered(world)
    (asked,) = [one async for one in world.rt.approvals(session="s")]
    await world.rt.approve(asked.id, by="ada")
    await set_policy(world, GATED + ASK.replace(ALLOW.strip(), "").replace("no-acts", "another"))
    view = await world.again()
    assert ([one.kind for one in view.waits], outside.calls) == (["approval"], [])
    (second,) = [one async for one in world.rt.approvals(session="s", decision="waiting")]
    await world.rt.approve(second.id, by="ada")
    assert (await world.again()).result == 7


async def test_an_effect_of_unknown_outcome_that_is_denied_now_is_in_doubt(world: World) -> None:
    declare(outside := Outside("lost", "died early"), replay="idempotent", key_ttl="1h")
    await world.run(PROGRAMS["acts"].bind(n=2))
    (asked,) = (await world.rt.get("s")).waits
    await world.rt.answer(asked.id, "yes")
    with pytest.raises(Exception, match="dead"):
        await world.again()
    world.crash()
    await set_policy(world, DENY)
    world.clock.advance(seconds=60)
    view = await world.again()
    assert [one.kind for one in view.waits] == ["doubt"]
    assert "Acts are forbidden here." in str((await world.effect()).doubt)
    assert len(outside.calls) == 2


async def test_freeze_makes_a_session_wait_and_a_thaw_continues_it(world: World) -> None:
    declare(outside := Outside())
    await world.rt.freeze_policy(because="an incident", by="grace")
    view = await asked_and_answered(world)
    (waits,) = view.waits
    assert (view.status, waits.kind, waits.ref) == ("waiting", "policy", "store")
    assert "frozen, by grace: an incident" in waits.detail["why"]
    assert [one.kind for one in (await world.again()).waits] == ["policy"]
    assert outside.calls == []
    await world.rt.thaw_policy(because="over", by="grace")
    assert (await world.again()).result == 7
    world.verify()


async def test_a_policy_that_cannot_be_read_allows_only_what_reaches_nothing(world: World) -> None:
    @tool(replay="idempotent", reach="none")
    def notes(n: int) -> int:
        return n

    @tool(replay="pure", reach="outside")
    def fetch(n: int) -> int:
        return n

    @program
    async def both(s: Session, n: int) -> int:
        await s.do(notes, n=n)
        return await s.do(fetch, n=n)

    await world.rt.store.write(policy.activate("default = 'what'\n", by="grace", because="newer software"))
    view = await world.run(both.bind(n=1))
    assert ([one.kind for one in view.waits], (await world.effect()).tool) == (["policy"], "notes")
    assert "cannot read version 1" in view.waits[0].detail["why"]
    await set_policy(world, ALLOW)
    assert (await world.again()).result == 1


UNDOING = DENY.replace('"act"', '"act"\naction = "undo"')


@pytest.mark.parametrize("source", [DENY.replace("act", "*"), UNDOING])
async def test_an_undo_is_denied_only_by_a_rule_about_undoing(world: World, source: str) -> None:
    act = (outside := Outside()).tool(replay="compensate")

    @program
    async def acts_and_asks(s: Session, n: int) -> None:
        await s.do(act, n=n)
        await s.ask("Now?")

    await world.run(acts_and_asks.bind(n=2))
    await set_policy(world, source)
    effect = await world.rt.undo((await world.effect()).id, by="ada", because="a test")
    if source != UNDOING:
        assert (effect.state, outside.undone) == ("compensated", [7])
        return
    assert (effect.state, outside.undone, effect.undo_requested_at) == ("acknowledged", [], None)
    (undo,) = [one for one in await world.effects() if one.tool == "act.undo"]
    assert (undo.state, undo.rule, undo.policy_version) == ("refused", "no-acts", "1")


async def test_an_undo_that_a_rule_asks_about_waits_for_approval(world: World) -> None:
    act = (outside := Outside()).tool(replay="compensate")

    @program
    async def acts_and_asks(s: Session, n: int) -> None:
        await s.do(act, n=n)
        await s.ask("Now?")

    await world.run(acts_and_asks.bind(n=2))
    await set_policy(world, UNDOING.replace('"deny"', '"ask"'))
    effect = await world.rt.undo((await world.effect()).id, by="ada", because="a test")
    assert (effect.state, outside.undone) == ("acknowledged", [])
    (asked,) = [one async for one in world.rt.approvals(session="s", decision="waiting")]
    await world.rt.approve(asked.id, by="ada")
    await world.again()
    assert ((await world.rt.effect(effect.id)).effect.state, outside.undone) == ("compensated", [7])


@pytest.mark.parametrize("declared", [True, False])
async def test_a_policy_in_code_is_asked_about_undos_if_it_declares_them(world: World, declared: bool) -> None:
    class Careful:
        actions = ("do", "undo") if declared else ("do",)

        def __call__(self, intent: Intent) -> str:
            return "deny" if intent.action == "undo" else "allow"

    act = (outside := Outside()).tool(replay="compensate")

    @program
    async def acts_and_asks(s: Session) -> None:
        await s.do(act, n=2)
        await s.ask("Now?")

    world.rt.policy = Policy(Careful())
    await world.run(acts_and_asks.bind())
    await world.rt.undo((await world.effect()).id, by="ada", because="a test")
    assert outside.undone == ([] if declared else [7])


async def test_an_exemption_for_a_rule_lifts_its_denial(world: World) -> None:
    declare(Outside())
    await set_policy(world, DENY)
    made = await world.rt.grant_exemption("no-acts", because="a test", tool="act", uses=1)
    assert (await asked_and_answered(world)).result == 7
    effect = await world.effect()
    assert (effect.exemption_id, effect.rule, effect.policy_version) == (made.id, "no-acts", "1")
    assert (await world.rt.store.read(exemption.get, made.id)).used == 1
    assert (await asked_and_answered(world, "t")).error["type"] == "PolicyDenied"


async def test_what_was_remembered_with_an_approval_lifts_no_denial(world: World) -> None:
    act = Outside().tool()

    @program
    async def acts_twice(s: Session, n: int) -> int:
        await s.do(act, n=n)
        await s.ask("Now?")
        return await s.do(act, n=n + 1)

    await set_policy(world, ASK)
    view = await world.run(acts_twice.bind(n=1))
    await world.rt.approve(view.waits[0].id, by="ada", remember="tool")
    view = await world.again()
    await set_policy(world, DENY)
    await world.rt.answer(view.waits[0].id, "yes")
    view = await world.again()
    assert (view.status, view.error["type"]) == ("failed", "PolicyDenied")


async def test_a_policy_whose_example_fails_is_refused(world: World) -> None:
    wrong = DENY + '\n[[rule.example]]\ntool = "act"\nexpect = "allow"\n'
    with pytest.raises(ConfigError, match="expects allow"):
        await world.rt.set_policy(wrong, because="a test")
    assert await world.rt.policy_versions() == []


def repository(folder: Path, policy_text: str | None) -> None:
    for words in (["init", "-q", "-b", "main"], ["config", "user.email", "a@b"], ["config", "user.name", "a"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    (folder / "readme").write_text("text")
    if policy_text is not None:
        (folder / ".perdure").mkdir()
        (folder / ".perdure" / "policy.toml").write_text(policy_text)
    commit(folder)


def commit(folder: Path) -> None:
    subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
    subprocess.run(["git", "commit", "-q", "-m", "a change"], cwd=folder, check=True)


async def test_the_policy_of_a_repository_is_that_of_the_starting_commit(world: World, folder: Path) -> None:
    declare(outside := Outside())
    repository(folder, DENY)
    (folder / ".perdure" / "policy.toml").write_text(ALLOW)
    view = await world.run(PROGRAMS["acts"].bind(n=2), "s", repository=folder)
    commit(folder)
    await world.rt.answer(view.waits[0].id, "yes")
    view = await world.again()
    assert (view.status, view.error["type"], outside.calls) == ("failed", "PolicyDenied", [])
    assert (await world.effect()).rule == "repository:no-acts"


async def test_a_repository_cannot_loosen_the_policy_of_the_store(world: World, folder: Path) -> None:
    declare(Outside())
    repository(folder, ALLOW)
    await set_policy(world, DENY)
    view = await world.run(PROGRAMS["acts"].bind(n=2), "s", repository=folder)
    await world.rt.answer(view.waits[0].id, "yes")
    assert (await world.again()).error["type"] == "PolicyDenied"


async def test_a_broken_policy_of_a_repository_starts_no_session(world: World, folder: Path) -> None:
    declare(Outside())
    repository(folder, "default = 'what'\n")
    with pytest.raises(ConfigError, match=r"policy\.toml in commit"):
        await world.rt.start(PROGRAMS["acts"].bind(n=2), id="s", repository=folder)


async def test_the_shipped_policy_is_replaced_by_code_only_before_one_is_set(world: World) -> None:
    declare(Outside())
    assert (await world.rt.get_policy()).version == 0
    world.rt.policy._rule = lambda _: "allow"
    assert (await asked_and_answered(world)).result == 7
    assert (await world.effect()).rule == "code"
    await set_policy(world, ALLOW)
    assert (await asked_and_answered(world, "t")).result == 7
    assert [one.rule for one in await world.effects("t")] == ["default"]


async def test_a_thaw_wakes_every_session_that_waits(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing_code, "FEW", 1)
    declare(Outside())
    await world.rt.freeze_policy(because="an incident")
    for name in "stu":
        await asked_and_answered(world, name)
    await world.rt.thaw_policy()
    assert {(await world.rt.get(name)).status for name in "stu"} == {"waiting"}
    await missing_code.MissingCode(world.rt)._look(is_new=False)
    assert {(await world.rt.get(name)).status for name in "stu"} == {"ready"}


async def test_a_check_against_the_past_names_what_would_be_judged_otherwise(world: World) -> None:
    declare(Outside())
    assert (await asked_and_answered(world)).result == 7
    same = await world.rt.check_policy(ALLOW, against="7d")
    assert (same.judged, same.differences) == (1, ())
    found = await world.rt.check_policy(DENY, against="7d")
    (other,) = found.differences
    assert (other.session, other.tool, other.was, other.would_be, other.rule) == (
        "s",
        "act",
        "allow",
        "deny",
        "no-acts",
    )
    await set_policy(world, DENY)
    await asked_and_answered(world, "t")
    later = await world.rt.check_policy(ALLOW, against="7d")
    assert [(one.session, one.was, one.would_be) for one in later.differences] == [("t", "deny", "allow")]
    world.clock.advance(days=8)
    assert (await world.rt.check_policy(DENY, against="7d")).judged == 0


async def test_an_effect_is_explained_with_what_it_was_judged_by(world: World) -> None:
    declare(Outside())
    await asked_and_answered(world)
    await set_policy(world, DENY)
    found = await world.rt.explain_policy((await world.effect()).id)
    assert (found.answer, found.rule, found.version) == ("deny", "no-acts", 1)
    assert (found.recorded_rule, found.recorded_version) == ("default", "0")
    with pytest.raises(ConfigError, match="Name an effect"):
        await world.rt.explain_policy()


async def test_a_judgement_costs_no_query_and_no_commit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    act, original = Outside().tool(replay="idempotent"), world.rt.store.read
    reads: list[str] = []
    commits: list[str] = []

    async def read(query: Any, *given: Any, **named: Any) -> Any:
        if query.__module__.startswith(("perdure.runtime.policy", "perdure.store.moves.policy")):
            reads.append(query.__name__)
        return await original(query, *given, **named)

    @program
    async def six_acts(s: Session) -> list[int]:
        await s.do(act, n=0)
        reads.clear()
        commits.clear()
        for n in range(1, 6):
            await s.do(act, n=n)
        return [len(reads), len(commits)]

    rules = "".join(ASK.partition("[[rule]]")[2].join(("[[rule]]", "")).replace("act", f"act{n}") for n in range(100))
    await set_policy(world, ALLOW + rules.replace("no-act", "rule-"))
    monkeypatch.setattr(world.rt.store, "read", read)
    faults.arm(lambda point: commits.append(point) if point == "commit.after" else None)
    assert (await world.run(six_acts.bind())).result == [0, 10]


@pytest.mark.parametrize(("reach", "judged"), [("outside", False), ("machine", True)])
async def test_a_command_is_judged_if_the_tool_runs_on_the_machine(world: World, reach: Any, judged: bool) -> None:
    @tool(replay="idempotent", reach=reach)
    def steer(command: str) -> str:
        return command

    @program
    async def steers(s: Session, command: str) -> str:
        return await s.do(steer, command=command)

    assert (await world.run(steers.bind(command="rm -rf /"))).result == "rm -rf /"
    await set_policy(world, shipped_text("full"))
    view = await world.run(steers.bind(command="rm -rf /"), "t")
    assert view.status == ("failed" if judged else "done")
