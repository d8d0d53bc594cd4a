"""Conditions on the parts of a command. A rule with one of them is compared with each part on its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from perdure.domain.policy.command_patterns import PartPredicate, commands
from perdure.domain.policy.patterns import Matcher, names, paths
from perdure.domain.policy.shell.network_programs import reaches_network
from perdure.domain.policy.shell.part import HARMLESS_FILES, UNKNOWN, CommandPart, normal

COMMAND_TEXTS = ("command", "command_writes", "command_mentions", "command_fed_by")
COMMAND_FLAGS = ("command_inside", "command_network")
COMMAND_CONDITIONS = (*COMMAND_TEXTS, *COMMAND_FLAGS)
HARMLESS_VARIABLES = names([
    "LANG", "LC_*", "TZ", "TERM", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR*", "CI",
    "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONHASHSEED", "RUST_BACKTRACE", "RUST_LOG",
    "SOURCE_DATE_EPOCH", "GIT_OPTIONAL_LOCKS", "GIT_TERMINAL_PROMPT",
])  # fmt: skip


def part_predicates(conditions: Mapping[str, Any], *, each: bool) -> list[PartPredicate]:
    """The comparisons of a rule with a part. With `each`, everything that the part does must be covered."""
    found: list[PartPredicate] = []
    if "command" in conditions:
        found.append(commands(conditions["command"], each=each))
    if "command_writes" in conditions:
        empty = each and "command" in conditions
        found.append(_paths(lambda part: part.writes, paths(conditions["command_writes"]), each=each, empty=empty))
    if "command_mentions" in conditions:
        found.append(_paths(CommandPart.mentions, paths(conditions["command_mentions"]), each=each, empty=False))
    if "command_fed_by" in conditions:
        found.append(_fed_by(names(conditions["command_fed_by"])))
    if "command_inside" in conditions:
        inside = conditions["command_inside"]
        found.append(lambda part: part.is_inside() is inside)
    if "command_network" in conditions:
        network = conditions["command_network"]
        found.append(lambda part: reaches_network(part) is network)
    if each and found:
        found.append(_changes_nothing(writes="command_writes" in conditions))
    return found


def _paths(
    get: Callable[[CommandPart], tuple[str, ...]], matches: Matcher, *, each: bool, empty: bool
) -> PartPredicate:
    def holds(part: CommandPart) -> bool:
        found = [normal(one) for one in get(part)]
        if each:
            return (empty or bool(found)) and all(UNKNOWN not in one and _matches(matches, one) for one in found)
        return any(_matches(matches, one) for one in found)

    return holds


def _matches(matches: Matcher, path: str) -> bool:
    return matches(path) or (path in ("/", "~") and matches(f"{path}/"))


def _fed_by(matches: Matcher) -> PartPredicate:
    return lambda part: any(map(matches, part.fed_by))


def _changes_nothing(*, writes: bool) -> PartPredicate:
    """What an allowing rule did not name: variables that change what a program does, and files that are written."""

    def holds(part: CommandPart) -> bool:
        return all(map(HARMLESS_VARIABLES, part.variables)) and (writes or HARMLESS_FILES.issuperset(part.redirected))

    return holds
