"""Conditions: the values that a rule may compare, and the functions that compare them.

A rule that asks or denies matches if *one* of several paths, targets or origins matches, and a rule that allows only
if *each* of them does: what is not covered is not allowed. Exceptions are the other way round: those of a rule that
asks or denies hold if each value is covered, and those of a rule that allows if one is. An unknown sandbox counts as
none, and an unknown network as one that can be reached.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, get_args

from perdure.domain.effect import Replay
from perdure.domain.literals import ReachWord
from perdure.domain.policy.command_conditions import COMMAND_CONDITIONS
from perdure.domain.policy.facts import Action, Facts
from perdure.domain.policy.patterns import Matcher, names, paths

Predicate = Callable[[Facts], bool]

MICROS = 1_000_000
CLOSED: Mapping[str, tuple[str, ...]] = {
    "action": get_args(Action),
    "replay": tuple(Replay),
    "reach": get_args(ReachWord),
}
SINGLE = ("tool", "remote", "branch", "repository", "sandbox", "owner", "queue", "model", "session_id")
SEVERAL: Mapping[str, Callable[[Facts], tuple[str, ...]]] = {
    "target": lambda facts: facts.targets,
    "path": lambda facts: facts.paths,
    "origin": lambda facts: facts.origins,
}
TEXTS = (*CLOSED, *SINGLE, *SEVERAL)
CONDITIONS = (*TEXTS, "network", "cost_above", "argument")
COMPARED = {"matches", "above", "below", "is", "not"}


def predicates(conditions: Mapping[str, Any], *, each: bool) -> list[Predicate]:
    """The comparisons of a rule. With `each`, every one of several values must match."""
    found: list[Predicate] = []
    for name, wanted in conditions.items():
        if name == "network":
            found.append(_network(wanted))
        elif name == "cost_above":
            found.append(_cost(wanted))
        elif name == "argument":
            found.extend(_argument(path.split("."), value, each=each) for path, value in wanted.items())
        elif name in COMMAND_CONDITIONS:
            continue
        elif name in SEVERAL:
            found.append(_several(SEVERAL[name], (paths if name == "path" else names)(wanted), each=each))
        else:
            found.append(_single(name, names(wanted)))
    return found


def _single(name: str, matches: Matcher) -> Predicate:
    missing = "none" if name == "sandbox" else None

    def holds(facts: Facts) -> bool:
        value = getattr(facts, name)
        value = missing if value is None else value
        return value is not None and matches(value)

    return holds


def _several(get: Callable[[Facts], tuple[str, ...]], matches: Matcher, *, each: bool) -> Predicate:
    if each:
        return lambda facts: bool(found := get(facts)) and all(map(matches, found))
    return lambda facts: any(map(matches, get(facts)))


def _network(wanted: bool) -> Predicate:
    return lambda facts: (facts.network is not False) is wanted


def _cost(dollars: float) -> Predicate:
    limit = dollars * MICROS
    return lambda facts: facts.cost > limit


def _argument(path: list[str], wanted: Any, *, each: bool) -> Predicate:
    compare = _comparison(wanted)

    def holds(facts: Facts) -> bool:
        found = _values(facts.arguments, path)
        if isinstance(wanted, dict) and wanted.get("is") == "missing":
            return not found
        return bool(found) and (all if each else any)(map(compare, found))

    return holds


def _values(value: Any, path: list[str]) -> list[Any]:
    """The values at a path of names. A list stands for each of its items; a large argument is not looked into."""
    if not path:
        return [one for item in value for one in _values(item, path)] if isinstance(value, list | tuple) else [value]
    if isinstance(value, list | tuple):
        return [one for item in value for one in _values(item, path)]
    if isinstance(value, Mapping) and path[0] in value:
        return _values(value[path[0]], path[1:])
    return []


def _comparison(wanted: Any) -> Callable[[Any], bool]:
    if isinstance(wanted, dict):
        return _table(wanted)
    if isinstance(wanted, list | tuple):
        every = [_comparison(one) for one in wanted]
        return lambda value: any(one(value) for one in every)
    if isinstance(wanted, str):
        matches = names([wanted])
        return lambda value: isinstance(value, str) and matches(value)
    return lambda value: type(value) is type(wanted) and value == wanted


def _table(wanted: dict[str, Any]) -> Callable[[Any], bool]:
    expression = re.compile(wanted["matches"]) if "matches" in wanted else None
    other = _comparison(wanted["not"]) if "not" in wanted else None

    def holds(value: Any) -> bool:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return (
            (expression is None or (isinstance(value, str) and expression.search(value) is not None))
            and ("above" not in wanted or (number and value > wanted["above"]))
            and ("below" not in wanted or (number and value < wanted["below"]))
            and (other is None or not other(value))
        )

    return holds
