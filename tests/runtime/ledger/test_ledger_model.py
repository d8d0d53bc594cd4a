"""The ledger against a plain model: any order of moves, compared after each, on both databases."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from perdure.domain.approval import ApprovalDecision
from perdure.domain.effect import AttemptOutcome, Verdict
from perdure.domain.lease import Holder
from perdure.errors import IllegalMove, LeaseLost, PerdureError
from perdure.store.move import Move
from perdure.store.moves import approval, doubt, effect, event, lease, principal, session, vote, wait
from perdure.store.moves.approval import ApprovalRequest, approval_id
from perdure.store.moves.attempt import attempts_of
from perdure.store.moves.effect_input import AttemptResult, Dispatch, NewEffect
from perdure.store.moves.session import NewSession
from perdure.store.store import Store, open_store
from perdure.testing import ManualClock
from tests.runtime.support.people import as_person, register

TTL = 3600 * 1_000_000
RETRY = 3
UNSETTLED = ("planned", "dispatched")
_numbers = count(1)


@dataclass
class Expected:
    """What the ledger should say of one effect."""

    state: str = "planned"
    attempts: list[str | None] = field(default_factory=list)
    doubted: bool = False
    verdict: str | None = None
    decision: str | None = None  # of its approval, where it has one
    gated: bool = False
    votes: set[str] = field(default_factory=set)
    asked: int | None = None  # the attempt that an open question is about
    undo_of: int | None = None


class Shop:
    """A store that can be closed and opened again, shared by all examples of one test."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.clock = ManualClock()
        self.store = open_store(target, clock=self.clock)

    def reopen(self) -> Store:
        self.store.close()
        self.store = open_store(self.target, clock=self.clock)
        return self.store


class Ledger(RuleBasedStateMachine):
    """One session's ledger, moved in any order that comes to mind."""

    shop: Shop

    def __init__(self) -> None:
        super().__init__()
        if not self.store.read_now(principal.is_governed):
            register(self.store, "ada", "grace", "edsger")
        self.expected: list[Expected] = []
        number = next(_numbers)
        new = NewSession(id=f"s-{number}", program="p", arguments={})
        self.uid = self.write(session.create(new, by="ada")).uid
        self.holder = self.take()
        self.old: Holder | None = None

    @property
    def store(self) -> Store:
        return self.shop.store

    def write(self, move: Move[Any]) -> Any:
        return self.store.write_now(move)

    def refused(self, move: Move[Any], *errors: type[PerdureError]) -> None:
        before = self.store.read_now(session.get, self.uid).cursor
        with pytest.raises(errors or (IllegalMove,)):
            self.write(move)
        assert self.store.read_now(session.get, self.uid).cursor == before, "what is refused leaves nothing"

    def take(self) -> Holder:
        nonce, because = f"n-{next(_numbers)}", "found dead"
        taken: Holder = self.write(lease.take_over(self.uid, f"w-{nonce}", nonce=nonce, ttl=TTL, because=because))
        return taken

    def pick(self, data: st.DataObject) -> tuple[int, Expected]:
        number = data.draw(st.integers(0, len(self.expected) - 1))
        return number, self.expected[number]

    def some(self) -> bool:
        return bool(self.expected)

    @rule(gated=st.booleans())
    def plan(self, gated: bool) -> None:
        number = len(self.expected)
        if gated:
            question = ApprovalRequest(gate="g", requester="ada", requester_may_decide=False, quorum=2, expires_at=None)
            self.write(approval.request(self.holder, intent(self.uid, number), question))
        else:
            self.write(effect.plan(self.holder, intent(self.uid, number)))
        self.write(effect.plan(self.holder, intent(self.uid, number)))
        self.expected.append(Expected(gated=gated))

    @precondition(some)
    @rule(data=st.data(), voter=st.sampled_from(["grace", "edsger", "ada"]), yes=st.booleans())
    def vote(self, data: st.DataObject, voter: str, yes: bool) -> None:
        number, want = self.pick(data)
        if not want.gated:
            return
        decision = ApprovalDecision.APPROVED if yes else ApprovalDecision.DENIED
        with as_person(voter):
            move = vote.cast(self.uid, voter, approval_id(name(self.uid, number)), decision, because="why")
        if voter == "ada" or want.decision is not None or voter in want.votes:
            if voter not in want.votes:
                self.refused(move)
            return
        self.write(move)
        want.votes.add(voter)
        if not yes:
            want.decision = "denied"
            want.state = "refused" if want.state == "planned" else want.state
        elif len(want.votes) == 2:
            want.decision = "approved"

    @precondition(some)
    @rule(data=st.data())
    def dispatch(self, data: st.DataObject) -> None:
        number, want = self.pick(data)
        move = effect.dispatch(self.holder, name(self.uid, number), Dispatch(worker="w", process="{}"))
        if want.state not in UNSETTLED or (want.gated and want.decision != "approved"):
            self.refused(move)
            return
        assert self.write(move) == len(want.attempts) + 1
        want.state, want.doubted, want.verdict = "dispatched", False, None
        want.attempts.append(None)

    @precondition(some)
    @rule(data=st.data(), outcome=st.sampled_from(list(AttemptOutcome)), late=st.booleans())
    def settle(self, data: st.DataObject, outcome: AttemptOutcome, late: bool) -> None:
        number, want = self.pick(data)
        if not want.attempts:
            return
        attempt = 1 if late else len(want.attempts)
        result = "7" if outcome is AttemptOutcome.ACKNOWLEDGED else None
        known = AttemptResult(outcome=outcome, result=result)
        self.write(effect.settle(self.uid, "w", name(self.uid, number), attempt, known, retry=RETRY))
        last = want.attempts[-1]
        counts = attempt == len(want.attempts) and (
            (want.state == "dispatched" and last in (None, "unknown"))
            or (want.state == "planned" and last == "absent" and outcome is AttemptOutcome.ACKNOWLEDGED)
        )
        if not counts:
            return
        decided = [one for one in want.attempts[:-1] if one != "failed"]
        if outcome is AttemptOutcome.FAILED and decided and decided[-1] != "absent":
            outcome = AttemptOutcome.UNKNOWN  # the earlier attempt may have happened
        want.attempts[-1] = str(outcome)
        if outcome is AttemptOutcome.UNKNOWN:
            return
        again = outcome is AttemptOutcome.ABSENT or (outcome is AttemptOutcome.FAILED and attempt < RETRY)
        want.state = "planned" if again else str(outcome)
        want.verdict, want.asked = None, None

    @precondition(some)
    @rule(data=st.data())
    def doubt(self, data: st.DataObject) -> None:
        number, want = self.pick(data)
        move = doubt.open_doubt(self.holder, name(self.uid, number), "the outcome is unknown")
        if want.state != "dispatched":
            self.refused(move)
            return
        self.write(move)
        if not want.doubted:
            want.asked = len(want.attempts)
        want.doubted = True

    @precondition(some)
    @rule(data=st.data(), verdict=st.sampled_from(list(Verdict)))
    def pronounce(self, data: st.DataObject, verdict: Verdict) -> None:
        number, want = self.pick(data)
        move = doubt.record_verdict(self.uid, "ada", name(self.uid, number), verdict, because="seen", result="7")
        if want.verdict == verdict:
            self.write(move)
            return
        if want.state != "dispatched" or not want.doubted:
            self.refused(move)
            return
        self.write(move)
        want.verdict, want.asked = str(verdict), None
        want.state = {"happened": "acknowledged", "absent": "planned", "abandon": "failed"}[verdict]
        if verdict is Verdict.ABSENT:
            want.attempts[-1] = "absent"

    @precondition(some)
    @rule(data=st.data())
    def refuse(self, data: st.DataObject) -> None:
        number, want = self.pick(data)
        move = effect.refuse(self.holder, name(self.uid, number), "policy-denied", "no")
        if want.state != "planned":
            self.refused(move)
            return
        self.write(move)
        want.state, want.verdict = "refused", None

    @precondition(some)
    @rule(data=st.data())
    def compensate(self, data: st.DataObject) -> None:
        (number, want), (by, undo) = self.pick(data), self.pick(data)
        move = doubt.record_compensation(self.holder, name(self.uid, number), by_effect=name(self.uid, by))
        if undo.state != "acknowledged" or want.state not in ("dispatched", "acknowledged") or by == number:
            if by != number:
                self.refused(move)
            return
        self.write(move)
        want.state, want.asked = "compensated", None

    @rule()
    def take_over(self) -> None:
        self.old, self.holder = self.holder, self.take()
        self.refused(effect.plan(self.old, intent(self.uid, 99_999)), LeaseLost)
        for number, want in enumerate(self.expected[:1]):
            assert want is self.expected[number]
            self.refused(
                effect.dispatch(self.old, name(self.uid, number), Dispatch(worker="w", process="{}")), LeaseLost
            )

    @rule(seconds=st.integers(1, 100))
    def time_passes(self, seconds: int) -> None:
        self.shop.clock.advance(seconds=seconds)

    @rule()
    def the_process_begins_anew(self) -> None:
        self.shop.reopen()

    @invariant()
    def the_rows_say_what_the_model_says(self) -> None:
        rows = {one.id: one for one in self.store.read_now(effect.of_session, self.uid)}
        assert len(rows) == len(self.expected)
        open_waits = {one.id for one in self.store.read_now(wait.open_of_session, self.uid)}
        for number, want in enumerate(self.expected):
            row = rows[name(self.uid, number)]
            attempts = [one.outcome for one in self.store.read_now(attempts_of, self.uid, row.id)]
            assert (row.state, attempts) == (want.state, want.attempts)
            if want.state in UNSETTLED:
                assert (row.doubted_at is not None) == want.doubted
            assert row.verdict == want.verdict
            asked = {id for id in open_waits if id.startswith(f"doubt-{row.id}-")}
            assert bool(asked) == (want.asked is not None), (asked, want)
            if want.gated:
                given = self.store.read_now(approval.get, self.uid, approval_id(row.id))
                assert given.decision == want.decision
                assert (given.consumed_by is not None) == bool(want.attempts)

    @invariant()
    def the_log_is_whole_and_tells_the_same(self) -> None:
        self.store.read_now(event.verify, self.uid)
        told = self.store.read_now(event.state_at, self.uid).effects
        for row in self.store.read_now(effect.of_session, self.uid):
            columns = row.to_dict()
            assert {key: told[row.id].get(key) for key in columns} == columns


def name(uid: str, number: int) -> str:
    return f"e-{uid[-12:]}-{number}"


def intent(uid: str, number: int) -> NewEffect:
    id = name(uid, number)
    return NewEffect(
        id=id, position=f'[0, "", "do", "t", "{number}", 0]', generation=0, tool="t", replay="escalate", targets="[]",
        intent="{}", intent_digest="d" * 64, idempotency_key=id.ljust(64, "k"),
    )  # fmt: skip


@pytest.mark.databases("sqlite", "postgres")
@pytest.mark.slow
def test_the_ledger_and_a_plain_model_agree_after_every_move(target: str) -> None:
    shop = Shop(target)
    examples = 12 if shop.store.database.dialect == "postgres" else 40

    class Machine(Ledger):
        pass

    Machine.shop = shop
    given = settings(
        max_examples=examples, stateful_step_count=30, deadline=None, database=None, derandomize=False,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    try:
        run_state_machine_as_test(Machine, settings=given)
    finally:
        shop.store.close()
