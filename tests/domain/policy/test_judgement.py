"""The judgement of one call: which rules match, and which of them decides."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.domain.policy import Facts, explain, judge, parse
from perdure.domain.policy.judgement import compiled
from perdure.errors import ConfigError

MAIN, SOURCE, T, U = "branch = 'main'", "path = 'src/**'", "tool = 't'", "tool = 'u'"


def rule(name: str, answer: str, conditions: str = "") -> str:
    return f'[[rule]]\nname = "{name}"\nanswer = "{answer}"\nreason = "Because {name}."\n{conditions}\n'


def answer(text: str, **facts: Any) -> str:
    return judge(parse(f'default = "allow"\n{text}'), Facts(**facts)).answer


def test_the_strictest_matching_rule_decides() -> None:
    policy = parse(f'default = "ask"\n{rule("a", "allow")}{rule("b", "deny", MAIN)}{rule("c", "ask")}')
    assert judge(policy, Facts(tool="t", branch="main")).rule == "b"
    found = judge(policy, Facts(tool="t", branch="x"))
    assert (found.answer, found.rule, found.reason) == ("ask", "c", "Because c.")


def test_the_default_answers_what_no_rule_matches() -> None:
    policy = parse(f'default = "deny"\n{rule("a", "allow", T)}')
    assert judge(policy, Facts(tool="t")).answer == "allow"
    found = judge(policy, Facts(tool="u"))
    assert (found.answer, found.rule) == ("deny", None)
    assert "default is deny" in found.reason


MATCHED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("tool = 'mcp.*'", {"tool": "mcp.a.b"}, {"tool": "amcp.b"}),
    ("replay = 'escalate'", {"replay": "escalate"}, {"replay": "pure"}),
    ("reach = ['machine', 'outside']", {"reach": "machine"}, {"reach": "workspace"}),
    ("argument.pr = 7", {"arguments": {"pr": 7}}, {"arguments": {"pr": "7"}}),
    ("argument.body = '*secret*'", {"arguments": {"body": "a secret\nb"}}, {"arguments": {"body": "x"}}),
    ("argument.cents = { above = 10 }", {"arguments": {"cents": 11}}, {"arguments": {"cents": 10}}),
    ("argument.to = { not = '*@us.example' }", {"arguments": {"to": "a@b"}}, {"arguments": {"to": "a@us.example"}}),
    ("argument.to = { matches = '^a+$' }", {"arguments": {"to": "aa"}}, {"arguments": {"to": "b"}}),
    ("argument.'a.b' = 1", {"arguments": {"a": [{"b": 2}, {"b": 1}]}}, {"arguments": {"a": {"b": 2}}}),
    ("argument.dry = { is = 'missing' }", {"arguments": {}}, {"arguments": {"dry": True}}),
    ("target = 'pr:*'", {"targets": ("x", "pr:1")}, {"targets": ("x",)}),
    ("path = 'deploy/**'", {"paths": ("a", "deploy/x/y")}, {"paths": ("a/deploy",)}),
    ("path = '.env'", {"paths": ("a/.env",)}, {"paths": ("a/x.env",)}),
    ("path = '/etc'", {"paths": ("/etc/passwd",)}, {"paths": ("etc/passwd",)}),
    ("path = 'a/*.py'", {"paths": ("a/b.py",)}, {"paths": ("a/c/b.py",)}),
    ("remote = '*github.com*'", {"remote": "https://github.com/a/b"}, {"remote": None}),
    ("branch = ['main', 'release/*']", {"branch": "release/1"}, {"branch": "mainly"}),
    ("repository = '*/perdure'", {"repository": "x/perdure"}, {"repository": "x/other"}),
    ("sandbox = 'none'", {"sandbox": None}, {"sandbox": "bubblewrap"}),
    ("network = true", {"network": None}, {"network": False}),
    ("cost_above = 1.5", {"cost": 1_500_001}, {"cost": 1_500_000}),
    ("owner = 'ada'", {"owner": "ada"}, {"owner": "grace"}),
    ("queue = 'night'", {"queue": "night"}, {"queue": "default"}),
    ("model = 'openai:*'", {"model": "openai:x"}, {"model": "anthropic:x"}),
    ("origin = 'web:*'", {"origins": ("file:a", "web:b")}, {"origins": ("file:a",)}),
    ("action = 'undo'", {"action": "undo"}, {"action": "do"}),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "matched", "other"), MATCHED, ids=[one[0] for one in MATCHED])
def test_a_condition_matches(condition: str, matched: dict[str, Any], other: dict[str, Any]) -> None:
    text = rule("a", "deny", condition)
    assert answer(text, **matched) == "deny"
    assert answer(text, **other) == "allow"


def test_a_rule_needs_all_of_its_conditions() -> None:
    text = rule("a", "deny", "tool = 't'\nbranch = 'main'")
    assert answer(text, tool="t", branch="main") == "deny"
    assert answer(text, tool="t", branch="x") == "allow"


def test_an_allowing_rule_must_cover_every_path() -> None:
    text = f'default = "deny"\n{rule("a", "allow", SOURCE)}'
    assert judge(parse(text), Facts(paths=("src/a", "src/b"))).answer == "allow"
    assert judge(parse(text), Facts(paths=("src/a", "etc"))).answer == "deny"
    assert judge(parse(text), Facts()).answer == "deny"


def test_exceptions_must_cover_every_path() -> None:
    text = rule("a", "deny", "tool = 'edit'\n[rule.except]\npath = 'src/**'")
    assert answer(text, tool="edit", paths=("src/a",)) == "allow"
    assert answer(text, tool="edit", paths=("src/a", "x")) == "deny"


def test_an_undo_is_allowed_unless_a_rule_names_it() -> None:
    denied = rule("a", "deny")
    assert answer(denied, action="do") == "deny"
    assert answer(denied, action="undo") == "allow"
    assert answer(rule("a", "ask", "action = ['do', 'undo']"), action="undo") == "ask"


def test_a_rule_on_the_reach_model_is_about_model_calls() -> None:
    assert answer(rule("a", "deny", "reach = 'model'"), action="model", reach="model") == "deny"
    assert answer(rule("a", "deny"), action="model", reach="model") == "allow"
    assert answer(rule("a", "deny", "action = 'model'\nmodel = 'openai:*'"), action="model", model="openai:x") == "deny"


def test_a_gate_counts_although_a_rule_without_one_asks_first() -> None:
    text = (
        rule("a", "ask") + rule("b", "ask", "gate = { quorum = 2, roles = ['lead'] }") + rule("c", "ask", "gate = {}")
    )
    found = judge(parse(f'default = "allow"\n{text}'), Facts())
    assert found.rule == "a"
    assert [(one.rule, one.gate and (one.gate.name, one.gate.quorum, one.gate.roles)) for one in found.demands] == [
        ("a", None), ("b", ("b", 2, ("lead",))), ("c", ("c", 1, ())),
    ]  # fmt: skip


def test_demands_are_what_asks_or_denies_with_the_strictest_first() -> None:
    text = rule("a", "ask") + rule("b", "allow") + rule("c", "deny")
    assert [one.rule for one in judge(parse(f'default = "deny"\n{text}'), Facts()).demands] == ["c", "a"]
    assert [one.rule for one in judge(parse('default = "ask"'), Facts()).demands] == ["default"]
    assert judge(parse('default = "allow"'), Facts()).demands == ()


@pytest.mark.parametrize("name", ["default", "agent", "repository:a"])
def test_a_rule_cannot_have_a_name_that_exemptions_use_for_something_else(name: str) -> None:
    with pytest.raises(ConfigError, match="not a name"):
        parse(f'default = "allow"\n{rule(name, "ask")}')


def test_an_explanation_lists_every_match() -> None:
    policy = parse(f'default = "allow"\n{rule("a", "allow")}{rule("b", "deny")}{rule("c", "deny", U)}')
    found = explain(policy, Facts(tool="t"))
    assert [(one.rule, one.answer) for one in found.matches] == [("b", "deny"), ("a", "allow")]
    assert found.judgement.rule == "b"


def test_a_call_is_compared_only_with_rules_that_name_its_tool() -> None:
    rules = "".join(rule(f"r{n}", "deny", f"tool = 't{n}'\nbranch = 'main'") for n in range(100))
    policy = compiled(parse(f'default = "allow"\n{rules}'))
    assert policy.judge(Facts(tool="t7", branch="main")).rule == "r7"
    assert [one.rule.name for one in policy.candidates(Facts(tool="t7", branch="main"))] == ["r7"]
    assert policy.candidates(Facts(tool="t7")) == ()
    assert policy.judge(Facts(tool="t7", branch="main")).rule == "r7"


@pytest.mark.parametrize(
    ("condition", "facts"),
    [
        ("owner = 'ada'", {"owner": "ada"}),
        ("reach = 'machine'", {"reach": "machine"}),
        ("path = 'a/*'", {"paths": ("a/b",)}),
        ("target = 'pr:*'", {"targets": ("pr:7",)}),
        ("origin = 'web:*'", {"origins": ("web:a",)}),
        ("argument.n = 1", {"arguments": {"n": 1}}),
        ("argument.'n.m' = 1", {"arguments": {"n": {"m": 1}}}),
        ("argument.k = { is = 'missing' }", {"arguments": {"n": 1}}),
        ("remote = '*'", {"remote": "here"}),
    ],
)
def test_the_index_forgets_no_rule_after_another_call(condition: str, facts: dict[str, Any]) -> None:
    policy = compiled(parse(f'default = "allow"\n{rule("r", "deny", condition)}'))
    other = Facts(tool="t", owner="grace", reach="none", arguments={"k": 2})
    for _ in range(2):
        assert policy.judge(other).answer == "allow"
        assert policy.judge(Facts(tool="t", **facts)).answer == "deny"
