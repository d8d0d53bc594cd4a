"""The text of a policy: TOML that is read strictly. Every error names its line, and an unknown key is an error.

The examples of the rules are judged by the whole document. If one is answered otherwise than it says, the text is
refused: a policy that does not do what its author expects is never in force.
"""

from __future__ import annotations

import tomllib
from typing import Any

from perdure.domain.exemption import AGENT, BUDGET, DEFAULT, OF_REPOSITORY, UNPARSED
from perdure.domain.policy.document import LOGGED_READS, Budget, PolicyDocument, PolicyRule, RuleExample
from perdure.domain.policy.facts import Facts
from perdure.domain.policy.judgement import explain
from perdure.domain.policy.lines import Lines
from perdure.domain.policy.table import Table, problem
from perdure.domain.policy.values import BUDGET_KEYS, FACT_KEYS, RULE_KEYS, conditions_of, facts_of, gate_of
from perdure.errors import ConfigError

LARGEST = 1 << 20  # characters of a policy
MOST_RULES = 5_000
ANSWERS = ("allow", "ask", "deny")
RESERVED = (DEFAULT, AGENT, UNPARSED)


def parse(text: str, source: str = "the policy") -> PolicyDocument:
    """The document of a text. Raises `ConfigError` with the line if it is wrong, or if one of its examples fails."""
    document = read(text, source)
    check_examples(document, source)
    return document


def read(text: str, source: str = "the policy") -> PolicyDocument:
    """The document of a text, without its examples being judged."""
    if len(text) > LARGEST:
        raise ConfigError(f"{source} has more than {LARGEST:,} characters.")
    try:
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{source} is not TOML: {str(error) or 'it is nested too deeply'}.") from None
    top = Table(values, Lines(text), source)
    top.allow("default", "default_command", "rule", "budget", "log_access")
    rules = [_rule(one) for one in top.tables("rule")]
    if len(rules) > MOST_RULES:
        raise ConfigError(f"{source} has more than {MOST_RULES:,} rules.")
    budgets = [_budget(one) for one in top.tables("budget")]
    for named in (rules, budgets):
        _check_names([(one.name, one.line) for one in named], source)
    logged = top.table("log_access")
    return PolicyDocument(
        text=text,
        default=top.word("default", ANSWERS),
        default_command=top.word("default_command", ANSWERS) if "default_command" in values else None,
        rules=tuple(rules),
        budgets=tuple(budgets),
        log_access=_log_access(logged),
        log_access_keep=None if logged is None or not logged.has("keep") else logged.seconds("keep"),
    )


def check_examples(document: PolicyDocument, source: str = "the policy") -> None:
    """Judge every example, and raise for the first that is answered otherwise."""
    for rule in document.rules:
        for example in rule.examples:
            found = explain(document, example.facts).judgement
            if found.answer != example.expect:
                by = f"the rule {found.rule}" if found.rule else "the default"
                raise problem(
                    source,
                    example.line,
                    f"an example of the rule {rule.name} expects {example.expect}, but {by} answers {found.answer}",
                    hint=f"{found.reason} Correct the rule or the example; the strictest matching rule decides.",
                )


def _rule(table: Table) -> PolicyRule:
    table.allow("name", "answer", "reason", "gate", "example", "except", *RULE_KEYS)
    name = table.text("name")
    if name in RESERVED or name.startswith((OF_REPOSITORY, BUDGET)):
        raise table.problem(f"{name!r} is not a name for a rule", "name", hint="Exemptions name something else by it.")
    answer = table.word("answer", ANSWERS)
    gate = table.table("gate")
    if gate is not None and answer != "ask":
        raise gate.problem(f"the rule {name} has a gate, but its answer is {answer}", hint='Only "ask" has a gate.')
    conditions = conditions_of(table)
    exceptions = table.table("except")
    if exceptions is not None:
        exceptions.allow(*RULE_KEYS)
    return PolicyRule(
        name=name,
        answer=answer,
        reason=table.text("reason"),
        conditions=conditions,
        exceptions={} if exceptions is None else conditions_of(exceptions),
        gate=None if gate is None else gate_of(gate, name),
        examples=tuple(_example(one, conditions) for one in table.tables("example")),
        line=table.line(),
    )


def _example(table: Table, conditions: dict[str, Any]) -> RuleExample:
    table.allow("expect", *FACT_KEYS)
    facts: Facts = facts_of(table, conditions)
    return RuleExample(facts=facts, expect=table.word("expect", ANSWERS), line=table.line())


def _budget(table: Table) -> Budget:
    table.allow(*BUDGET_KEYS)
    of = table.word("of", ("cost", "tokens", "turns", "time", "effects"))
    limit = table.seconds("limit") if of == "time" else table.number("limit")
    if of not in ("cost", "time") and limit != int(limit):
        raise table.problem(f"a limit of {of} is a whole number", "limit")
    per = table.word("per", ("session", "owner", "day", "owner-day"))
    if of == "time" and per != "session":
        raise table.problem("a budget of time is for a session", "per", hint='Write per = "session".')
    reach = table.words("reach", ("none", "model", "workspace", "machine", "outside"))
    if reach and of != "effects":
        raise table.problem("only a budget of effects has a reach", "reach")
    return Budget(
        name=table.text("name"),
        of=of,
        limit=limit,
        per=per,
        answer=table.word("answer", ("ask", "stop"), default="ask"),
        reason=table.text("reason", default=""),
        reach=reach,
        line=table.line(),
    )


def _log_access(table: Table | None) -> frozenset[str]:
    if table is None:
        return frozenset()
    table.allow(*LOGGED_READS, "keep")
    return frozenset(name for name in LOGGED_READS if table.flag(name))


def _check_names(named: list[tuple[str, int]], source: str) -> None:
    lines: dict[str, int] = {}
    for name, line in named:
        if name in lines:
            raise problem(source, line, f"{name!r} is already the name in line {lines[name]}", hint="Choose another.")
        lines[name] = line
