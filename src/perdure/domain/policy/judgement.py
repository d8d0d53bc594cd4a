"""The judgement of one call: the strictest of the rules that match it, or the default if none does.

A command is judged part by part: a rule that asks or denies matches if it matches one part, each part needs a rule that
allows it or the default does, and the strictest answer of all parts counts. If something of a command cannot be parsed,
the answer is at least `ask`, whatever the rules say.

A document is compiled once. Its rules are indexed by action and tool, so that a call is compared only with rules that
may match it.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, cast

import msgspec

from perdure.domain.exemption import DEFAULT, UNPARSED
from perdure.domain.literals import PolicyAnswer
from perdure.domain.policy.command_conditions import part_predicates
from perdure.domain.policy.command_patterns import PartPredicate
from perdure.domain.policy.conditions import Predicate, predicates
from perdure.domain.policy.document import STRICTNESS, PolicyDocument, PolicyGate, PolicyRule
from perdure.domain.policy.facts import Facts
from perdure.domain.policy.patterns import Matcher, names
from perdure.domain.policy.shell import CommandPart, analyse

MOST = 1000  # calls of one kind of which the rules are remembered
OF_SESSION = ("reach", "replay", "owner", "queue", "repository", "model")  # the same for a tool's calls in a session
NEEDED = {"path": "paths", "target": "targets", "origin": "origins", "remote": "remote", "branch": "branch"}
ABSENT: tuple[Any, ...] = ((), None)
_indexed = attrgetter("action", "tool", *OF_SESSION)
_needed = attrgetter(*NEEDED.values())


class Demand(msgspec.Struct, frozen=True):
    """A rule that asks or denies, or the default that does (`DEFAULT`). An exemption lifts it by its name."""

    rule: str
    answer: PolicyAnswer
    reason: str
    line: int = 0
    gate: PolicyGate | None = None


class Judgement(msgspec.Struct, frozen=True):
    """The answer for a call, and the rule that decided; `rule` is None if the default did.

    `part` is the part of a command that the rule is about. `demands` are all that ask or deny, the strictest first: a
    call may begin when each of them is met or lifted.
    """

    answer: PolicyAnswer
    rule: str | None
    reason: str
    line: int = 0
    demands: tuple[Demand, ...] = ()
    part: str | None = None


class Match(msgspec.Struct, frozen=True):
    """A rule that matched a call, or the first part of its command that the rule matched."""

    rule: str
    answer: PolicyAnswer
    reason: str
    line: int
    part: str | None = None


class Explanation(msgspec.Struct, frozen=True):
    """Why a call is judged as it is: every rule that matched, the strictest first, and the judgement."""

    judgement: Judgement
    matches: tuple[Match, ...]


class CompiledRule(msgspec.Struct, frozen=True):
    """A rule as functions of the call and of one part of a command, without the conditions that the index compares."""

    rule: PolicyRule
    every: tuple[Predicate, ...]
    parts: tuple[PartPredicate, ...]
    exceptions: tuple[Predicate, ...]
    part_exceptions: tuple[PartPredicate, ...]

    def holds(self, facts: Facts) -> bool:
        """Whether the conditions on the call hold."""
        for one in self.every:  # noqa: SIM110 - a generator costs more than the conditions
            if not one(facts):
                return False
        return True

    def is_about_parts(self) -> bool:
        """Whether the rule, or its exception, is about the parts of a command."""
        return bool(self.parts or self.part_exceptions)

    def fits(self, part: CommandPart | None) -> bool:
        """Whether the conditions on a part hold; None: the call has no command, or none that has parts."""
        return not self.parts if part is None else all(holds(part) for holds in self.parts)

    def excepts(self, part: CommandPart | None) -> bool:
        """Whether the exceptions on a part hold, as far as they depend on the part."""
        if not self.exceptions and not self.part_exceptions:
            return False
        return not self.part_exceptions if part is None else all(holds(part) for holds in self.part_exceptions)

    def is_excepted(self, facts: Facts) -> bool:
        """Whether the exceptions hold, as far as they depend on the call."""
        return all(holds(facts) for holds in self.exceptions)


class PartMatch(msgspec.Struct, frozen=True):
    """The rules that are about one part of a command and fit it, with whether it is excepted."""

    part: CommandPart | None
    rules: tuple[tuple[CompiledRule, bool], ...]


Found = list[tuple[PolicyRule, CommandPart | None]]


class CompiledPolicy:
    """A document as functions, with an index by action and tool."""

    def __init__(self, document: PolicyDocument) -> None:
        self._default = document.default
        self._default_command = document.default_command or document.default
        self._rules = [(_tools(one), actions(one), _of_session(one), _compile(one)) for one in document.rules]
        self._index: dict[tuple[Any, ...], tuple[CompiledRule, ...]] = {}
        self._about_parts = [one for *_, one in self._rules if one.is_about_parts()]
        self._parts: dict[str, tuple[tuple[str, ...], tuple[PartMatch, ...]]] = {}

    def judge(self, facts: Facts) -> Judgement:
        return self._answer(facts)[0]

    def explain(self, facts: Facts) -> Explanation:
        judgement, found = self._answer(facts)
        ordered = sorted(found, key=lambda one: -STRICTNESS[one[0].answer])
        matches = (
            Match(rule.name, rule.answer, rule.reason, rule.line, part.text if part else None) for rule, part in ordered
        )
        return Explanation(judgement, tuple(matches))

    def _answer(self, facts: Facts) -> tuple[Judgement, Found]:
        held = [one for one in self.candidates(facts) if one.holds(facts)]
        if facts.command is not None and facts.action == "do":
            return self._command(facts, held, facts.command)
        fitting = [one for one in held if one.fits(None)]
        found: Found = [(one.rule, None) for one in fitting if not (one.excepts(None) and one.is_excepted(facts))]
        if found:
            return _judgement([(_demand(rule), part) for rule, part in found]), found
        if facts.action != "do":
            return Judgement("allow", None, f"No rule is about the action {facts.action}."), found
        why = f"No rule matches, and the default is {self._default}."
        return _judgement([(Demand(DEFAULT, self._default, why), None)]), found

    def _command(self, facts: Facts, held: list[CompiledRule], command: str) -> tuple[Judgement, Found]:
        """Each part of a command on its own: the strictest of all parts counts."""
        problems, parts = self._parted(command)
        ids = set(map(id, held))
        others = [one.rule for one in held if not one.is_about_parts() and not _excepts_all(one, facts)]
        matched: dict[str, tuple[PolicyRule, CommandPart | None]] = {}
        demands: list[tuple[Demand, CommandPart | None]] = []
        for match in parts:
            rules = [one.rule for one, but in match.rules if id(one) in ids and not (but and one.is_excepted(facts))]
            for rule in (*rules, *others):
                matched.setdefault(rule.name, (rule, match.part))
            if not rules and not others:
                why = f"No rule is about this part of the command, and the default is {self._default_command}."
                demands.append((Demand(DEFAULT, self._default_command, why), match.part))
        if problems:
            demands.append((Demand(UNPARSED, "ask", f"The command cannot be judged: {problems[0]}."), None))
        found = sorted(matched.values(), key=lambda one: one[0].line)
        return _judgement([*((_demand(rule), part) for rule, part in found), *_once(demands)]), found

    def _parted(self, command: str) -> tuple[tuple[str, ...], tuple[PartMatch, ...]]:
        """The problems of a command, and its parts with the rules that fit them. Without parts it is one part."""
        if (known := self._parts.get(command)) is not None:
            return known
        analysis = analyse(command)
        found = tuple(
            PartMatch(part, tuple((one, one.excepts(part)) for one in self._about_parts if one.fits(part)))
            for part in analysis.parts or (None,)
        )
        if len(self._parts) >= MOST:
            self._parts.clear()
        self._parts[command] = analysis.problems, found
        return analysis.problems, found

    def candidates(self, facts: Facts) -> tuple[CompiledRule, ...]:
        """The rules that may match calls of this tool with these arguments in this session."""
        key = (*_indexed(facts), *map(ABSENT.__contains__, _needed(facts)), *facts.arguments)
        found = self._index.get(key)
        if found is None:
            found = tuple(
                one
                for tools, during, of_session, one in self._rules
                if facts.action in during
                and tools(facts.tool)
                and all(holds(facts) for holds in of_session)
                and _has_needed(one.rule, facts)
            )
            if len(self._index) >= MOST:
                self._index.clear()
            self._index[key] = found
        return found


def _excepts_all(rule: CompiledRule, facts: Facts) -> bool:
    """Whether the exceptions of a rule that is not about parts hold."""
    return bool(rule.exceptions) and rule.is_excepted(facts)


def _once(demands: list[tuple[Demand, CommandPart | None]]) -> list[tuple[Demand, CommandPart | None]]:
    """The first demand of each name."""
    return list({demand.rule: (demand, part) for demand, part in reversed(demands)}.values())[::-1]


def _demand(rule: PolicyRule) -> Demand:
    return Demand(rule.name, rule.answer, rule.reason, rule.line, rule.gate)


def _judgement(every: list[tuple[Demand, CommandPart | None]]) -> Judgement:
    """The strictest of what matched; of equal ones, the first."""
    demand, part = max(every, key=lambda one: STRICTNESS[one[0].answer])
    strict = sorted((one for one, _ in every if one.answer != "allow"), key=lambda one: -STRICTNESS[one.answer])
    rule = None if demand.rule == DEFAULT else demand.rule
    return Judgement(demand.answer, rule, demand.reason, demand.line, tuple(strict), part.text if part else None)


def actions(rule: PolicyRule) -> tuple[str, ...]:
    """The actions that a rule is about: what it says, or calls of tools. A rule on the reach `model` is on models."""
    if "action" in rule.conditions:
        return cast("tuple[str, ...]", rule.conditions["action"])
    return ("do", "model") if "model" in rule.conditions.get("reach", ()) else ("do",)


def _tools(rule: PolicyRule) -> Matcher:
    return names(rule.conditions.get("tool", ("*",)))


def _of_session(rule: PolicyRule) -> tuple[Predicate, ...]:
    """The conditions that the index compares, besides tool and action."""
    conditions = {name: wanted for name, wanted in rule.conditions.items() if name in OF_SESSION}
    return tuple(predicates(conditions, each=rule.answer == "allow"))


def _has_needed(rule: PolicyRule, facts: Facts) -> bool:
    """Whether the call has what the rule compares: without a path, for example, no rule about paths matches."""
    if any(name in rule.conditions and getattr(facts, field) in ABSENT for name, field in NEEDED.items()):
        return False
    wanted = rule.conditions.get("argument", {}).items()
    return all(path.split(".")[0] in facts.arguments or _may_be_missing(one) for path, one in wanted)


def _may_be_missing(wanted: Any) -> bool:
    return isinstance(wanted, dict) and wanted.get("is") == "missing"


def _compile(rule: PolicyRule) -> CompiledRule:
    indexed = ("tool", "action", *OF_SESSION)
    conditions = {name: wanted for name, wanted in rule.conditions.items() if name not in indexed}
    allows = rule.answer == "allow"
    return CompiledRule(
        rule,
        tuple(predicates(conditions, each=allows)),
        tuple(part_predicates(conditions, each=allows)),
        tuple(predicates(rule.exceptions, each=not allows)),
        tuple(part_predicates(rule.exceptions, each=not allows)),
    )


def compiled(document: PolicyDocument) -> CompiledPolicy:
    """A document as functions; made once for each document."""
    found = document.__dict__.get("compiled")
    if found is None:
        found = document.__dict__["compiled"] = CompiledPolicy(document)
    return cast("CompiledPolicy", found)


def judge(document: PolicyDocument, facts: Facts) -> Judgement:
    """The answer of a policy for one call."""
    return compiled(document).judge(facts)


def explain(document: PolicyDocument, facts: Facts) -> Explanation:
    """The answer of a policy for one call, with every rule that matched."""
    return compiled(document).explain(facts)
