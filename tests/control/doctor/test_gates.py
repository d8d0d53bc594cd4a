"""What the doctor reports about gates: what is enforced here, from evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from perdure.agent.commands.sandbox import Level
from perdure.control.doctor.gate_findings import of_gates
from perdure.control.doctor.gates import GateReport, examine_gates
from perdure.control.doctor.governance import Governance, examine_governance
from perdure.control.doctor.report import DoctorReport
from perdure.domain.policy import PolicyDocument, parse
from perdure.domain.principal import Conditions
from perdure.ids import new_uid
from perdure.store.moves import approval, message, policy, principal
from perdure.store.moves.approval import ApprovalRequest
from perdure.store.moves.effect_input import NewEffect
from perdure.store.store import Store
from tests.runtime.support.people import as_person, register
from tests.store.support.sessions import a_holder

pytestmark = pytest.mark.databases("sqlite", "postgres")
OPEN = parse('default = "allow"\n')
CLOSED = parse(
    'default = "allow"\n[[rule]]\nname = "votes"\nanswer = "deny"\nreason = "People decide."\ntool = "run_command"\n'
    '[[rule.example]]\ntool = "run_command"\nexpect = "deny"\n'
)


def report_of(store: Store, sandbox: Level = Level.BUBBLEWRAP, policy: PolicyDocument | None = OPEN) -> GateReport:
    return store.read_now(lambda tx: examine_gates(tx, roles=None, sandbox=sandbox, policy=policy))


def met(report: GateReport) -> Sequence[bool]:
    return [one.met for one in report.promises]


def asks(store: Store, quorum: int, **changes: Any) -> None:
    planned = NewEffect(
        id="e-1", position="[0]", generation=0, tool="push", replay="escalate", targets="[]", intent="{}",
        intent_digest="d" * 64, idempotency_key="e" * 64,
    )  # fmt: skip
    given: dict[str, Any] = {"requester": "ada", "requester_may_decide": True, "expires_at": None} | changes
    question = ApprovalRequest(gate="ops", quorum=quorum, **given)
    store.write_now(approval.request(a_holder(store), planned, question))


def test_what_is_enforced_follows_from_principals_sandbox_and_policy(store: Store) -> None:
    assert met(report_of(store)) == [False, False, False, True, False]
    register(store, "grace")
    assert met(report_of(store, policy=CLOSED)) == [True, True, False, True, True]  # the owner and grace
    assert met(report_of(store, sandbox=Level.NONE, policy=None)) == [True, True, False, False, False]


def test_one_person_is_no_quorum(store: Store) -> None:
    register(store)
    with as_person("olga"):
        bot = principal.put(new_uid(), "bot", by="olga", kind="program", roles=["approver"], logins=["token:bot"])
        store.write_now(bot)
    assert met(report_of(store))[:2] == [True, False]


def test_an_approval_that_too_few_people_may_decide_is_found(store: Store) -> None:
    register(store, "grace")
    asks(store, quorum=3)
    found = report_of(store)
    assert found.unreachable == ["a-1"]
    report = DoctorReport(kind="sqlite", place="x", governance=Governance(principals=2, gates=found, sandbox="none"))
    assert [one.level for one in of_gates(report)] == ["stuck", "risk"]


@pytest.mark.parametrize(
    ("changes", "unreachable"),
    [
        ({}, False),
        ({"requester": "olga", "requester_may_decide": False}, False),  # grace may decide
        ({"conditions": Conditions(people=("olga",)), "requester": "olga", "requester_may_decide": False}, True),
        ({"conditions": Conditions(people=("linus",))}, True),
        ({"conditions": Conditions(people=("linus",), escalate_after=1, escalate_to=("grace",))}, False),
        ({"conditions": Conditions(also=(Conditions(roles=("auditor",)),))}, True),
    ],
)
def test_who_may_decide_is_judged_by_the_gate(store: Store, changes: dict[str, Any], unreachable: bool) -> None:
    register(store, "grace")
    asks(store, 1, **changes)
    assert report_of(store).unreachable == (["a-1"] if unreachable else [])


@pytest.mark.parametrize(("of", "named"), [("cost", ("local",)), ("tokens", ())])
def test_models_without_a_price_are_named_if_costs_are_limited(store: Store, of: str, named: tuple[str, ...]) -> None:
    text = f'default = "allow"\n[[budget]]\nname = "b"\nof = "{of}"\nlimit = 5\nper = "day"\n'
    store.write_now(policy.activate(text, by="ada", because="a test"))
    holder = a_holder(store)
    for model, cost in (("local", 0), ("paid", 7)):
        store.write_now(message.add_usage(holder, tokens_in=10, tokens_out=1, cost_micros=cost, model=model))
    found = store.read_now(lambda tx: examine_governance(tx, postgres=False))
    assert found.unpriced == named
    report = DoctorReport(kind="sqlite", place="x", governance=found)
    assert ["local" in one.what for one in of_gates(report) if "known price" in one.what] == [True] * len(named)
