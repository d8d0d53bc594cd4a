"""An exemption is not weaker than the rule that it lifts: who granted it is judged when it is used."""

from __future__ import annotations

import pytest

from perdure.domain.exemption import ExemptionScope
from perdure.domain.identity import Identity, acting
from perdure.errors import IllegalMove, NotFound
from perdure.runtime.definitions.program import PROGRAMS
from perdure.store.moves import exemption
from tests.runtime.policy.test_store_policy import ALLOW, ASK, DENY, declare, set_policy
from tests.runtime.support.people import as_person, register
from tests.runtime.support.scripted_world import Outside, World

pytestmark = [pytest.mark.anyio, pytest.mark.databases("sqlite", "postgres")]
QUORUM = ASK + "\n[rule.gate]\nname = 'release'\nquorum = 2\nrequester_may_decide = false\n"
STRICT = {"gate": QUORUM, "denial": DENY}


async def governed(world: World, text: str) -> Outside:
    """A session that `olga`, an owner, started, in a store in which `otto` is the other owner and `grace` approves."""
    declare(outside := Outside())
    await set_policy(world, text)
    register(world.rt.store, "grace")
    register(world.rt.store, "otto", roles=("owner",))
    with as_person("olga"):
        await world.rt.start(PROGRAMS["acts"].bind(n=2), id="s", owner="ada")
        view = await world.again()
        await world.rt.answer(view.waits[0].id, "yes")
    return outside


def granted_by(world: World, person: str) -> None:
    """Granted while the rule was weaker, so that only its use can refuse it."""
    scope = ExemptionScope(tool="act")
    with as_person(person):
        world.rt.store.write_now(exemption.grant("no-acts", scope, by=person, because="a release"))


@pytest.mark.parametrize("rule", sorted(STRICT))
@pytest.mark.parametrize(("person", "is_lifted"), [("grace", False), ("olga", False), ("otto", True)])
async def test_what_denies_or_has_a_gate_is_lifted_by_another_owner(
    world: World, rule: str, person: str, is_lifted: bool
) -> None:
    outside = await governed(world, STRICT[rule])
    granted_by(world, person)
    view = await world.again()
    assert (view.status == "done", len(outside.calls)) == (is_lifted, int(is_lifted))


async def test_an_owner_who_lost_the_role_lifts_nothing_more(world: World) -> None:
    outside = await governed(world, QUORUM)
    granted_by(world, "otto")
    with as_person("olga"):
        await world.rt.set_principal("otto", roles=["approver"])
    assert ((await world.again()).status, outside.calls) == ("waiting", [])


async def test_an_approver_lifts_a_rule_that_only_asks(world: World) -> None:
    outside = await governed(world, ASK)
    granted_by(world, "grace")
    assert ((await world.again()).result, len(outside.calls)) == (7, 1)


@pytest.mark.parametrize(("person", "session"), [("grace", None), ("olga", "s")])
async def test_who_may_not_lift_a_rule_is_refused_the_exemption(world: World, person: str, session: str | None) -> None:
    await governed(world, QUORUM)
    with as_person(person), pytest.raises(IllegalMove, match="only an owner who did not request"):
        await world.rt.grant_exemption("no-acts", because="mine", tool="act", session=session)


@pytest.mark.parametrize(
    ("rule", "hint"),
    [
        ("no-act", "Did you mean no-acts?"),
        ("budget:none", "shows the rules"),
        ("gate:release", "always decide"),
        ("code", "always decide"),
    ],
)
async def test_an_exemption_that_would_lift_nothing_is_refused(world: World, rule: str, hint: str) -> None:
    await set_policy(world, DENY)
    with pytest.raises(NotFound) as refused:
        await world.rt.grant_exemption(rule, because="a release", tool="act")
    assert hint in str(refused.value.hint)
    assert [one async for one in world.rt.exemptions()] == []


@pytest.mark.parametrize("rule", ["default", "unparsed", "agent", "repository:any"])
async def test_rules_without_a_text_of_their_own_can_be_lifted(world: World, rule: str) -> None:
    await set_policy(world, ALLOW)
    with acting(Identity("os", "1000")):
        assert (await world.rt.grant_exemption(rule, because="a release", tool="act")).rule == rule
