"""What the tables of a policy mean: the conditions of a rule, the facts of an example, a gate."""

from __future__ import annotations

import re
from typing import Any

from perdure.domain.policy.command_conditions import COMMAND_CONDITIONS, COMMAND_FLAGS
from perdure.domain.policy.command_patterns import problem_of
from perdure.domain.policy.conditions import CLOSED, COMPARED, CONDITIONS, MICROS, SEVERAL, SINGLE
from perdure.domain.policy.document import PolicyGate
from perdure.domain.policy.facts import Facts
from perdure.domain.policy.patterns import is_literal
from perdure.domain.policy.table import Table

RULE_KEYS = (*CONDITIONS, *COMMAND_CONDITIONS)
FACT_KEYS = (*CLOSED, *SINGLE, *SEVERAL, "network", "cost", "argument", "command")
BUDGET_KEYS = ("name", "of", "limit", "per", "answer", "reason", "reach")
DEEPEST = 5  # of tables inside a condition on an argument
LONGEST = 500  # characters of a regular expression


def conditions_of(table: Table) -> dict[str, Any]:
    """The conditions of a rule, or of its exceptions."""
    found: dict[str, Any] = {}
    for name in RULE_KEYS:
        if name not in table.values:
            continue
        if name in CLOSED:
            found[name] = table.words(name, CLOSED[name])
        elif name == "network" or name in COMMAND_FLAGS:
            found[name] = table.flag(name)
        elif name == "cost_above":
            found[name] = table.number(name)
        elif name == "argument":
            found[name] = _arguments(table)
        else:
            found[name] = table.texts(name)
    for pattern in found.get("command", ()):
        if problem := problem_of(pattern):
            raise table.problem(f"{pattern!r} is no pattern of a command: {problem}", "command")
    return found


def _arguments(table: Table) -> dict[str, Any]:
    arguments = table.table("argument")
    if arguments is None or not arguments.values:
        raise table.problem("'argument' names at least one argument", "argument")
    for name, wanted in arguments.values.items():
        _check_wanted(arguments, name, wanted, 0)
    return arguments.values


def _check_wanted(table: Table, name: str, wanted: Any, depth: int) -> None:
    """Refuse what is not comparable: a value, a list of values, or a table of comparisons."""
    if depth > DEEPEST:
        raise table.problem(f"{name!r} is nested too deeply", name)
    if isinstance(wanted, list):
        if not wanted:
            raise table.problem(f"{name!r} is an empty list, which matches no value", name)
        for one in wanted:
            _check_wanted(table, name, one, depth + 1)
    elif isinstance(wanted, dict):
        _check_comparison(table, name, wanted, depth)
    elif not isinstance(wanted, str | bool | int | float):
        raise table.problem(f"{name!r} is compared with a text, a number, true or false", name)


def _check_comparison(table: Table, name: str, wanted: dict[str, Any], depth: int) -> None:
    if not wanted or wanted.keys() - COMPARED:
        hint = 'An argument in a list or table is named with dots: argument."a.b" = ...'
        raise table.problem(f"{name!r} compares with {', '.join(sorted(COMPARED))}", name, hint=hint)
    if "is" in wanted and (wanted["is"] != "missing" or len(wanted) > 1):
        raise table.problem(f'{name!r}: `is` can only be "missing", and stands alone', name)
    if "matches" in wanted:
        _check_expression(table, name, wanted["matches"])
    for limit in ("above", "below"):
        if isinstance(wanted.get(limit, 0), bool) or not isinstance(wanted.get(limit, 0), int | float):
            raise table.problem(f"{name!r}: `{limit}` is a number", name)
    if "not" in wanted:
        _check_wanted(table, name, wanted["not"], depth + 1)


def _check_expression(table: Table, name: str, expression: Any) -> None:
    try:
        if not isinstance(expression, str) or len(expression) > LONGEST:
            raise re.error("it is not a text, or too long")
        re.compile(expression)
    except re.error as error:
        raise table.problem(f"{name!r}: the expression cannot be read: {error}", name) from None


def gate_of(table: Table, rule: str) -> PolicyGate:
    """The gate of a rule that asks; its name is the rule's unless it has its own."""
    table.allow(
        "name", "quorum", "expires", "roles", "people", "requester_may_decide", "owner_may_decide", "reason",
        "escalate_after", "escalate_to",
    )  # fmt: skip
    after, to = table.duration("escalate_after", default=None), table.texts("escalate_to")
    if (after is None) != (not to):
        raise table.problem("'escalate_after' and 'escalate_to' belong together")
    never = table.values.get("expires") == "never"
    return PolicyGate(
        name=table.text("name", default=rule),
        quorum=table.count("quorum", default=1),
        expires=None if never else table.duration("expires", default="24h"),
        roles=table.texts("roles"),
        people=table.texts("people"),
        requester_may_decide=table.flag("requester_may_decide"),
        owner_may_decide=table.flag("owner_may_decide", default=True),
        reason=table.word("reason", ("optional", "required"), default="optional"),
        escalate_after=after,
        escalate_to=to,
    )


def facts_of(table: Table, conditions: dict[str, Any]) -> Facts:
    """The facts of an example. Without a tool it is the rule's, or the shell if it has a command."""
    command = table.text("command", default="") or None
    rule_tools = [one for one in conditions.get("tool", ()) if is_literal(one)]
    given: dict[str, Any] = {"tool": "run_command" if command else next(iter(rule_tools), "example")}
    given["reach"] = "machine" if command else "outside"
    for name in (*CLOSED, *SINGLE):
        if name in table.values:
            given[name] = table.word(name, CLOSED[name]) if name in CLOSED else table.text(name)
    for name, field in (("target", "targets"), ("path", "paths"), ("origin", "origins")):
        given[field] = table.texts(name)
    arguments = table.table("argument")
    given["arguments"] = {} if arguments is None else dict(arguments.values)
    if command is not None:
        given |= {"command": command, "arguments": {"command": command} | given["arguments"]}
    if "network" in table.values:
        given["network"] = table.flag("network")
    given["cost"] = int(table.number("cost", default=0) * MICROS)
    return Facts(**given)
