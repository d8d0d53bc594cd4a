"""Tasks of the kill sweep of approvals: people vote, withdraw, are late and remember; or judge what a kill left.

The next process does everything again, as clients do that got no answer. In the end each session is as if there had
been no kill, and at no moment was something dispatched without its quorum or used twice.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from perdure import ApprovalDenied, ApprovalExpired, Call, Gate, Session, faults, program, tool
from perdure.clock import SECOND
from perdure.domain.approval import ApprovalDecision
from perdure.domain.exemption import ExemptionScope, PermissionWidth
from perdure.domain.lease import Holder
from perdure.domain.principal import Role
from perdure.errors import Conflict, IllegalMove, PolicyChanged
from perdure.ids import encode
from perdure.runtime.runtime import Runtime
from perdure.runtime.services.timers import Approvals
from perdure.store.move import StoreTransaction
from perdure.store.moves import approval, effect, event, exemption, lease, principal, quorum, session, vote
from perdure.store.moves.approval import ApprovalRequest
from perdure.store.moves.attempt import attempts_of
from perdure.store.moves.effect_input import Dispatch, NewEffect
from perdure.store.store import Store, open_store
from perdure.testing import ManualClock
from perdure.testing.sink import WHERE, SinkClient, lasting
from perdure.testing.sink_process import read_log
from perdure.testing.sweep.fork_process import Channel
from perdure.testing.sweep.trial import KillPointCounter
from tests.crash.support.verdict import Verdict, judge_safely, verdict
from tests.runtime.support.people import as_person
from tests.store_copy import copy_store

HOUR = 3600 * SECOND
PEOPLE = ("grace", "linus", "mina")
AGENT = "agent"
USES = 2


@tool(replay="idempotent", gate=Gate("two-people", quorum=2, expires="2h", requester_may_decide=False))
def swept_by_two(call: Call, name: str) -> str:
    SinkClient.here().post(call.key, {"name": name})
    return name


@tool(
    replay="idempotent",
    gate=Gate("late", people=("grace",), escalate_after="1h", escalate_to=("linus",), expires="20h"),
)
def swept_when_late(call: Call, name: str) -> str:
    SinkClient.here().post(call.key, {"name": name})
    return name


@program
async def swept_approval(s: Session, name: str) -> str:
    try:
        return await (s.do(swept_when_late, name=name) if name == "escalated" else s.do(swept_by_two, name=name))
    except (ApprovalDenied, ApprovalExpired) as error:
        return error.code


RESULTS = {
    "voted": "voted", "withdrawn": "approval-denied", "expired": "approval-expired", "escalated": "escalated",
}  # fmt: skip


class People:
    """What people and services do, step by step; each step is acknowledged, and may be done again."""

    def __init__(self, runtime: Runtime, clock: ManualClock, acknowledge: Callable[[str], None]) -> None:
        self.rt = runtime
        self.clock = clock
        self._acknowledge = acknowledge

    async def act(self) -> None:
        for name in RESULTS:
            await self.begin(name)
        (voted,), (late,) = await self.asked("voted"), await self.asked("escalated")
        (gone,) = await self.asked("withdrawn")
        for person in ("grace", "linus"):
            await self.step(f"{person} votes", person, self.rt.approve(voted, by=person))
            await self.step(f"{person} votes on withdrawn", person, self.rt.approve(gone, by=person))
        await self.step("withdraws", "grace", self.rt.withdraw(gone, by="grace", because="the wrong one"))
        await self.run("voted")
        self.clock.advance(hours=3)
        await self.step("services", "mina", Approvals(self.rt).look())
        await self.step("linus votes late", "linus", self.rt.approve(late, by="linus"))
        for name in RESULTS:
            await self.run(name)
        await asyncio.to_thread(Remembering(self.rt.store, self.clock).act)
        self._acknowledge("remembered")
        await asyncio.to_thread(Granting(self.rt.store, self.clock).act)
        self._acknowledge("granted")

    async def run(self, name: str) -> None:
        await self.rt.run(name)

    async def begin(self, name: str) -> None:
        """Run it until it asks; one that was approved before the kill is not run before it is withdrawn."""
        with as_person("mina"):
            await self.rt.start(swept_approval.bind(name), id=name)
        if not await self.asked(name):
            await self.rt.run(name)

    async def asked(self, name: str) -> list[str]:
        return [one.id async for one in self.rt.approvals(session=name)]

    async def step(self, what: str, person: str, act: Coroutine[Any, Any, Any]) -> None:
        with as_person(person), suppress(IllegalMove, Conflict):
            await act
            self._acknowledge(what)


class Remembering:
    """An agent's calls: one answer that is remembered lifts the rule for the calls after it, and counts their uses."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock

    def act(self) -> None:
        uid = self.store.write_now(session.create(session.NewSession(id="r", program="r", arguments={}), by="mina")).uid
        holder = self.store.write_now(lease.acquire(uid, "w-1", nonce=f"n-{self.clock.boot()}", ttl=10 * SECOND))
        question = ApprovalRequest(
            gate=AGENT, requester="mina", requester_may_decide=True, quorum=1, expires_at=None, may_remember=True,
            lifts=(AGENT,),
        )  # fmt: skip
        planned = self.store.write_now(approval.request(holder, intent(1), question))
        with as_person("grace"), suppress(IllegalMove):
            cast = vote.cast(
                uid, "grace", planned.approval_id or "", ApprovalDecision.APPROVED, because="seen",
                remember=PermissionWidth.TOOL,
            )  # fmt: skip
            self.store.write_now(cast)
        self._dispatch(holder, 1, Dispatch(worker="w-1", process='{"pid":7}'))
        (one,) = self.store.read_now(exemption.listing, uid=uid)
        for number in (2, 3):
            self._dispatch(holder, number, Dispatch(worker="w-1", process='{"pid":7}', exemptions=(one.id,)))
        self.store.write_now(session.release(holder))

    def _dispatch(self, holder: Holder, number: int, how: Dispatch) -> None:
        with suppress(IllegalMove, Conflict):  # it was dispatched before the kill
            if number == 1:
                self.store.write_now(effect.dispatch(holder, "e-1", how))
            else:
                self.store.write_now(effect.plan_and_dispatch(holder, intent(number), how))


class Granting:
    """An exemption of two uses that a person granted: two calls are dispatched with it, and a third never is."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock

    def act(self) -> None:
        uid = self.store.write_now(session.create(session.NewSession(id="g", program="g", arguments={}), by="mina")).uid
        holder = self.store.write_now(lease.acquire(uid, "w-1", nonce=f"g-{self.clock.boot()}", ttl=10 * SECOND))
        found = self.store.read_now(exemption.listing, uid=uid)
        with as_person("grace"):
            granting = exemption.grant(
                AGENT, ExemptionScope(session_uid=uid), by="grace", because="a release", uses=USES
            )
            one = found[0] if found else self.store.write_now(granting)
        for number in range(1, USES + 2):
            with suppress(IllegalMove, Conflict, PolicyChanged):  # dispatched before the kill; the last: none is left
                how = Dispatch(worker="w-1", process='{"pid":7}', exemptions=(one.id,))
                self.store.write_now(effect.plan_and_dispatch(holder, intent(number), how))
        self.store.write_now(session.release(holder))


def intent(number: int) -> NewEffect:
    return NewEffect(
        id=f"e-{number}", position=f'[0,"","do","r","x",{number}]', generation=0, tool="r", replay="escalate",
        targets="[]", intent=encode({"n": number}), intent_digest=f"{number:064}", idempotency_key=f"{number:064}",
    )  # fmt: skip


def prepare(channel: object, *, target: str) -> None:
    """A store with people: an owner, and approvers."""
    with open_store(target, clock=ManualClock()) as store, as_person("olga"):
        store.write_now(principal.put("0" * 32, "olga", by="olga", roles=[Role.OWNER], logins=["token:olga"]))
        for number, name in enumerate(PEOPLE, 1):
            one = principal.put(f"{number:032}", name, by="olga", roles=[Role.APPROVER], logins=[f"token:{name}"])
            store.write_now(one)


def govern(
    channel: Channel, *, fatal: int, target: str, url: str, template: str | None = None, **_: Any
) -> dict[str, Any]:
    """Do everything; killed at one of the kill points."""
    if template is not None:
        copy_store(template, target)
    counter = KillPointCounter(channel, fatal)
    faults.arm(lambda name: counter.reach(f"point {name}"))
    counter.counting = True
    asyncio.run(everything(target, url, ManualClock(), lambda what: channel.send(ack=what)))
    return {"moments": counter.moments}


async def everything(target: str, url: str, clock: ManualClock, acknowledge: Callable[[str], None]) -> None:
    os.environ[WHERE] = url
    async with Runtime(open_store(target, clock=clock, connections=2)) as runtime:
        await People(runtime, clock, acknowledge).act()


def judge(channel: object, *, acks: list[str], measure: Any, target: str, url: str, log: str, **_: Any) -> Verdict:
    """What a kill left is consistent; and after everything was done again it is as without a kill."""

    def check() -> Verdict:
        with open_store(target, clock=ManualClock()) as store:
            found = verdict(half=store.read_now(contradictions), lost=store.read_now(lost, acks))
        clock = ManualClock()
        clock.advance(seconds=600)
        asyncio.run(everything(target, url, clock, lambda _: None))
        with open_store(target, clock=clock) as store:
            found["broken"] += store.read_now(contradictions)
            for name, result in RESULTS.items():
                row = store.read_now(session.get_by_id, name)
                found["stuck"] += [] if row.result == result else [f"{name} is {row.status}: {row.result} {row.error}"]
                store.read_now(event.verify, row.uid)
            found["broken"] += store.read_now(counts)
        happened = dict(lasting(read_log(Path(log))))
        right = {f'effects {{"name":"{name}"}}': 1 for name in ("voted", "escalated")}
        found["broken"] += [] if happened == right else [f"outside there is {happened}"]
        return found

    return judge_safely(check)


def contradictions(tx: StoreTransaction) -> list[str]:
    """What must never be there, at any moment."""
    found = []
    for one in approval.listing(tx, limit=1000):
        planned = effect.get(tx, one.session_uid, one.effect_id)
        tried = attempts_of(tx, one.session_uid, one.effect_id)
        enough = quorum.counted(tx, one) >= one.quorum and one.decision == ApprovalDecision.APPROVED
        if tried and (not enough or one.withdrawn_at is not None or one.consumed_by != planned.id):
            found.append(f"{planned.id} of {one.gate} was dispatched without its approval: {one}")
        if tried and one.expires_at is not None and (one.decided_at or 0) > one.expires_at:
            found.append(f"{one.id} was decided after its end")
        if one.consumed_by not in (None, planned.id):
            found.append(f"{one.id} was used by {one.consumed_by}")
        voters = [each.principal_uid for each in quorum.votes(tx, one.session_uid, one.id)]
        found += [f"{one.id} has two votes of one person"] if len(voters) != len(set(voters)) else []
    for each in exemption.listing(tx):
        uses = exemption.uses(tx, each.id)
        found += [f"{each.id} counts {each.used} uses of {len(uses)}"] if each.used != len(uses) else []
        found += (
            [f"{each.id} was used {each.used} times of {each.uses}"] if each.used > (each.uses or each.used) else []
        )
        for use in uses:
            tried = attempts_of(tx, use.session_uid, use.effect_id)
            found += [] if tried else [f"{use.effect_id} used {each.id} and was not dispatched"]
    return found


def lost(tx: StoreTransaction, acks: list[str]) -> list[str]:
    """What was acknowledged and is not there."""
    there = {
        f"{one.voter} votes{'' if row.session_uid == uid_of(tx, 'voted') else ' on withdrawn'}"
        for row in approval.listing(tx, limit=1000)
        for one in quorum.votes(tx, row.session_uid, row.id)
    }
    return [f"{one} was acknowledged" for one in acks if " votes" in one and "late" not in one and one not in there]


def uid_of(tx: StoreTransaction, name: str) -> str:
    return session.get_by_id(tx, name).uid


def counts(tx: StoreTransaction) -> list[str]:
    """Each thing happened once, whatever was repeated."""
    kinds = [one.kind for name in RESULTS for one in event.after(tx, uid_of(tx, name), 0, limit=1000)]
    wanted = {"approval.escalated": 1, "approval.withdrawn": 1, "approval.voted": 5}
    found = [f"{kind}: {kinds.count(kind)}" for kind, number in wanted.items() if kinds.count(kind) != number]
    for name in ("r", "g"):
        (one,) = exemption.listing(tx, uid=uid_of(tx, name))
        found += [] if one.used == USES else [f"the exemption of {name} was used {one.used} times"]
    begun = [one.id for one in effect.of_session(tx, uid_of(tx, "g"))]
    return found + ([] if begun == ["e-1", "e-2"] else [f"{begun} were dispatched with an exemption of {USES} uses"])
