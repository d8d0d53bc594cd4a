"""What a policy costs: the processor time of one judgement, and an effect under 100 rules against the shipped policy.

The facts of a call are part of its judgement. A command is measured apart: the analysis of a new one, and the judgement
of one that was analysed before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from benchmarks.measure import Budget, Contestant, Line, Table, contest, figure
from benchmarks.programs import act, bench, bench_effects
from perdure.domain.policy import Facts, PolicyDocument, judge, parse, shipped
from perdure.domain.policy.shell import analyse
from perdure.domain.policy_version import PolicyFence
from perdure.domain.session import SessionRecord
from perdure.evaluation.measurement import MICROSECONDS, MILLISECONDS
from perdure.runtime.ledger.policy import Basis, Policy, rule_on
from perdure.runtime.policy.active_policy import PolicyState
from perdure.runtime.policy.call_facts import CallSite, facts_of
from perdure.runtime.policy.objections import Sources, objections_to
from perdure.store.moves import policy
from perdure.testing.postgres import PostgresServer

RULES, CALLS, TIMES, TURNS = 100, 2_000, 40, 6
COMMAND = "cd src && git log --oneline -5 | head -3; timeout 60 pytest -q tests -k 'a or b' 2>&1 | tail -20"
CONDITIONS = (
    "path = 'deploy/{n}/**'", "argument.branch = 'release-{n}'", "target = 'branch:{n}'", "tool = 'tool_{n}'",
    "argument.amount = {{ above = {n} }}", "owner = 'team-{n}'", "remote = '*example{n}.com*'", "cost_above = {n}",
    "origin = 'web:*{n}'", "reach = 'outside'\nargument.content = 'x-{n}*'",
)  # fmt: skip
RULE = "[[rule]]\nname = 'rule-{n}'\nanswer = '{answer}'\nreason = 'A reason.'\n{condition}\n\n"
SESSION = cast("SessionRecord", SimpleNamespace(
    id="s", owner="ada", queue="default", repository=None, repository_id="github.com/org/app", model=None, cost_micros=0
))  # fmt: skip


def rules(count: int) -> str:
    """A policy of so many rules, none of which matches the call that is measured."""
    written = (
        RULE.format(n=n, answer=("ask", "deny")[n % 2], condition=CONDITIONS[n % len(CONDITIONS)].format(n=n))
        for n in range(count)
    )
    return "default = 'allow'\n\n" + "".join(written)


def tables(folder: Path, rounds: int) -> Iterator[Table]:
    yield Table("policy, processor", judgements(rounds))
    yield Table("policy, commands, processor", commands(rounds))
    yield Table("policy on SQLite", effects(folder / "shipped.db", folder / "ruled.db", rounds))
    with PostgresServer() as server:
        yield Table("policy on PostgreSQL", effects(server.create_database(), server.create_database(), rounds))


def judgements(rounds: int) -> Iterator[Line]:
    hundred, few = parse(rules(RULES)), shipped()
    yield figure("a judgement, the shipped policy", MICROSECONDS, lambda: judged(few), rounds=rounds)
    case = f"a judgement, {RULES} rules (budget 50 µs)"
    yield figure(case, MICROSECONDS, lambda: judged(hundred), Budget("≤", 50e-6), rounds=rounds)


def judged(document: PolicyDocument) -> float:
    """The processor seconds of one judgement: facts, rules, and the ruling."""
    sources = Sources(PolicyState(PolicyFence(1, "1"), document), Policy(None))
    tool: Any = act
    arguments = {"content": "text", "branch": "topic", "amount": 0}
    began = time.thread_time()
    for _ in range(CALLS):
        facts = facts_of(tool, arguments, SESSION, CallSite(origins=("file:readme",)))
        found, allowed_by = objections_to(tool, arguments, facts, SESSION, sources)
        assert rule_on(found, Basis(rule=allowed_by)).answer == "allow"
    return (time.thread_time() - began) / CALLS


def commands(rounds: int) -> Iterator[Line]:
    facts = Facts(tool="run_command", reach="machine", command=COMMAND, arguments={"command": COMMAND})
    yield figure("a command of five programs, new", MICROSECONDS, analysed, rounds=rounds)
    yield figure("a command, seen before", MICROSECONDS, lambda: each(lambda _: judge(shipped(), facts)), rounds=rounds)


def analysed() -> float:
    """The processor seconds of the analysis of a command whose text is new."""
    return each(lambda n: analyse.__wrapped__(f"{COMMAND} {n}"))


def each(act: Callable[[int], object]) -> float:
    act(0)
    began = time.thread_time()
    for n in range(CALLS):
        act(n)
    return (time.thread_time() - began) / CALLS


def effects(shipped_target: str | Path, ruled_target: str | Path, rounds: int) -> Iterator[Line]:
    with bench(shipped_target) as plain, bench(ruled_target) as ruled:
        ruled.runtime.store.write_now(policy.activate(rules(RULES), by="bench", because="a measurement"))
        under = Contestant(
            f"s.do under {RULES} rules, to the shipped policy",
            lambda: ruled.p50(bench_effects.bind(count=TIMES)),
            Budget("≤", 1.1),
        )
        yield from contest(
            MILLISECONDS, lambda: plain.p50(bench_effects.bind(count=TIMES)), [under], rounds=rounds, turns=TURNS
        )
