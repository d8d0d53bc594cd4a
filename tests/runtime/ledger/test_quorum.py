"""Who may decide: identities and principals are counted, and never the names that voters give."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import ApprovalDenied, ConfigError, Conflict, Gate, IllegalMove, Session, Tool, program, tool
from perdure.domain.approval import Approval
from perdure.domain.identity import Identity, acting
from perdure.runtime.services.timers import Approvals
from perdure.store.inspection import damage
from perdure.store.moves import approval, quorum
from tests.runtime.support.people import as_person, register
from tests.runtime.support.scripted_world import Outside, World
from tests.store.support.sessions import raw

pytestmark = pytest.mark.databases("sqlite", "postgres")


def acts(tool: Tool[Any, Any]) -> Any:
    @program
    async def acts(s: Session) -> Any:
        try:
            return await s.do(tool, n=1)
        except ApprovalDenied as error:
            return str(error)

    return acts


async def asks(world: World, outside: Outside, owner: str | None = "ada", **gate: Any) -> Approval:
    """Run a session until its gate asks."""
    await world.run(acts(outside.tool(gate=Gate("merge", **gate))).bind(), owner=owner)
    (asked,) = [one async for one in world.rt.approvals()]
    return asked


async def votes(world: World, asked: Approval, person: str, by: str | None = None) -> Approval:
    with as_person(person):
        return await world.rt.approve(asked.id, by=by or person, because="seen")


async def test_one_user_with_two_names_does_not_meet_a_quorum_of_two(world: World) -> None:
    outside = Outside()
    asked = await asks(world, outside, quorum=2)
    await world.rt.approve(asked.id, by="grace", because="seen")
    with pytest.raises(Conflict, match=f"linus \\({world.rt.store.identity}\\) has voted .* as grace"):
        await world.rt.approve(asked.id, by="linus", because="seen")
    view = await world.again()
    assert (view.status, outside.calls) == ("waiting", [])
    (vote,) = await world.rt.store.read(quorum.votes, asked.session_uid, asked.id)
    assert (vote.voter, vote.identity, vote.principal_uid) == ("grace", world.rt.store.identity, None)


async def test_two_users_who_are_not_registered_do_not_meet_a_quorum(world: World) -> None:
    outside = Outside()
    asked = await asks(world, outside, quorum=2)
    for person in ("grace", "linus"):
        assert (await votes(world, asked, person)).decision is None
    assert ((await world.again()).status, outside.calls) == ("waiting", [])


async def test_one_person_with_two_logins_counts_once(world: World) -> None:
    outside = Outside()
    asked = await asks(world, outside, quorum=2)
    register(world.rt.store, "grace", "linus")
    with as_person("olga"):
        await world.rt.set_principal("grace", logins=["oidc:grace@example.org"])
    await votes(world, asked, "grace")
    with acting(Identity("oidc", "grace@example.org")):
        assert (await world.rt.approve(asked.id, by="linus", because="again")).decision is None
    assert len(await world.rt.store.read(quorum.votes, asked.session_uid, asked.id)) == 1
    assert (await votes(world, asked, "linus")).decision == "approved"
    assert (await world.again()).result == 7


async def test_the_vote_of_a_removed_principal_does_not_count(world: World) -> None:
    asked = await asks(world, Outside(), quorum=2)
    register(world.rt.store, "grace", "linus", "barbara")
    await votes(world, asked, "grace")
    with as_person("olga"):
        await world.rt.remove_principal("grace")
    assert (await votes(world, asked, "linus")).decision is None
    assert (await votes(world, asked, "barbara")).decision == "approved"


async def test_a_vote_counts_when_the_voter_is_registered_later(world: World) -> None:
    asked = await asks(world, Outside(), quorum=2)
    await votes(world, asked, "grace")
    register(world.rt.store, "grace", "linus")
    assert (await votes(world, asked, "linus")).decision == "approved"


async def test_logins_that_voted_before_they_were_registered_count_as_one_person(world: World) -> None:
    asked = await asks(world, Outside(), quorum=2)
    for login in ("grace", "grace-at-home"):
        await votes(world, asked, login)
    register(world.rt.store, "grace", "linus")
    with as_person("olga"):
        await world.rt.set_principal("grace", logins=["token:grace-at-home"])
    assert (await votes(world, asked, "grace")).decision is None
    assert (await votes(world, asked, "linus")).decision == "approved"


async def test_a_name_that_another_voter_used_blocks_no_vote(world: World) -> None:
    asked = await asks(world, Outside(), quorum=2)
    await votes(world, asked, "mallory", by="grace")
    register(world.rt.store, "grace", "linus")
    await votes(world, asked, "grace")
    assert (await votes(world, asked, "linus")).decision == "approved"
    names = {one.voter for one in await world.rt.store.read(quorum.votes, asked.session_uid, asked.id)}
    assert names == {"grace", "grace (token:grace)", "linus"}
    assert await world.rt.store.read(damage.of_session, asked.session_uid) == []


async def test_who_started_the_session_may_not_decide_under_another_owner(world: World) -> None:
    register(world.rt.store, "ada", "grace")
    with as_person("ada"):
        asked = await asks(world, Outside(), owner="someone")
    with pytest.raises(IllegalMove, match="ada requested"):
        await votes(world, asked, "ada", by="grace")
    assert (await votes(world, asked, "grace")).decision == "approved"


async def test_the_gate_names_roles_and_people_who_may_decide(world: World) -> None:
    register(world.rt.store, "grace", "linus", "barbara")
    with as_person("olga"):
        await world.rt.set_principal("linus", roles=["operator"])
        await world.rt.add_principal("bot", kind="program", roles=["operator"], logins=["token:bot"])
    asked = await asks(world, Outside(), roles=("operator",), people=("barbara",), quorum=2)
    for person, why in (("grace", "may not decide"), ("bot", "is a program"), ("mallory", "not registered")):
        with pytest.raises(IllegalMove, match=why):
            await votes(world, asked, person)
    await votes(world, asked, "linus")
    assert (await votes(world, asked, "barbara")).decision == "approved"


async def test_a_gate_that_names_people_is_not_met_without_principals(world: World) -> None:
    asked = await asks(world, Outside(), people=("grace",))
    with pytest.raises(IllegalMove, match="no principals"):
        await world.rt.approve(asked.id, by="grace", because="me")
    assert (await world.rt.deny(asked.id, by="anyone", because="no")).decision == "denied"


@pytest.mark.parametrize(
    ("requester", "owner", "may"), [(False, None, False), (True, None, True), (True, False, False)]
)
async def test_the_owner_of_the_change_is_barred_by_the_gate(
    world: World, requester: bool, owner: bool | None, may: bool
) -> None:
    register(world.rt.store, "ada")
    asked = await asks(world, Outside(), requester_may_decide=requester, owner_may_decide=owner)
    if may:
        assert (await votes(world, asked, "ada")).decision == "approved"
    else:
        with pytest.raises(IllegalMove, match="ada owns the change"):
            await votes(world, asked, "ada")


async def test_an_approval_is_escalated_once_to_more_people(world: World) -> None:
    register(world.rt.store, "grace", "linus")
    asked = await asks(world, Outside(), people=("grace",), escalate_after="4h", escalate_to=("linus",), expires="24h")
    service = Approvals(world.rt)
    assert await service.look() == asked.escalate_at
    with pytest.raises(IllegalMove, match="linus may not decide"):
        await votes(world, asked, "linus")
    world.clock.advance(hours=4)
    for _ in range(2):
        await service.look()
    await world.rt.store.write(approval.escalate(asked.session_uid, "timer", asked.id))  # another process was as fast
    assert (await world.kinds()).count("approval.escalated") == 1
    assert (await votes(world, asked, "linus")).decision == "approved"
    assert await world.rt.store.read(damage.of_session, asked.session_uid) == []


async def test_the_database_refuses_an_approval_without_the_votes_of_its_quorum(world: World) -> None:
    asked = await asks(world, Outside(), quorum=2)
    register(world.rt.store, "grace", "linus")
    await votes(world, asked, "grace")
    for statement in (
        f"update approval set decision = 'approved', decided_at = 1 where id = '{asked.id}'",
        f"update approval set quorum = 1 where id = '{asked.id}'",
    ):
        with pytest.raises(Exception, match="an approval"):
            raw(world.rt.store, statement)
    assert (await world.again()).status == "waiting"


async def test_a_withdrawn_approval_is_never_dispatched(world: World) -> None:
    outside = Outside()
    asked = await asks(world, outside)
    await world.rt.approve(asked.id, by="grace", because="seen")
    gone = await world.rt.withdraw(asked.id, by="grace", because="wrong branch")
    assert (gone.decision, gone.withdrawn_by, gone.withdrawn_because) == ("approved", "grace", "wrong branch")
    assert await world.rt.withdraw(asked.id, by="grace", because="wrong branch") == gone
    view = await world.again()
    assert (outside.calls, "grace withdrew the approval: wrong branch" in view.result) == ([], True)
    world.verify()
    assert await world.rt.store.read(damage.of_session, asked.session_uid) == []


async def test_a_request_is_withdrawn_before_it_is_decided(world: World) -> None:
    outside = Outside()
    asked = await asks(world, outside)
    assert (await world.rt.withdraw(asked.id, by="ada", because="not needed")).decision == "denied"
    assert ("ada withdrew" in (await world.again()).result, outside.calls) == (True, [])


async def test_an_approval_that_was_used_is_not_withdrawn(world: World) -> None:
    outside = Outside()
    asked = await asks(world, outside)
    await world.rt.approve(asked.id, by="grace", because="seen")
    await world.again()
    with pytest.raises(IllegalMove, match="dispatched already"):
        await world.rt.withdraw(asked.id, by="grace", because="too late")
    with pytest.raises(ConfigError, match="reason"):
        await world.rt.withdraw(asked.id, by="grace", because=" ")
    assert len(outside.calls) == 1


async def test_a_bystander_withdraws_nothing_where_people_are_registered(world: World) -> None:
    register(world.rt.store, "grace")
    asked = await asks(world, Outside())
    with as_person("mallory"), pytest.raises(IllegalMove, match="may not withdraw"):
        await world.rt.withdraw(asked.id, by="grace", because="no")
    with as_person("grace"):
        assert (await world.rt.withdraw(asked.id, by="grace", because="no")).withdrawn_at is not None


@pytest.mark.parametrize(
    "gate",
    [
        {"quorum": 0}, {"roles": ("root",)}, {"people": "grace"}, {"escalate_after": "4h"}, {"escalate_to": ("grace",)},
        {"escalate_after": "soon", "escalate_to": ("grace",)},
    ],
)  # fmt: skip
def test_wrong_gates_are_refused_at_the_decorator(gate: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):

        @tool(gate=Gate("merge", **gate))
        def act() -> None: ...
