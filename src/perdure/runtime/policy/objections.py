"""The objections to one call, from every source.

The store's policy decides; once one was set, functions in code and the policy of the repository can only object as
well. Before that (version 0), the policy that ships takes its place, and a function in code replaces that: the
runtime's for programs, the agent's own for agents.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from perdure.domain.exemption import DEFAULT, OF_REPOSITORY
from perdure.domain.policy import Facts, Judgement, PolicyDocument, judge
from perdure.domain.session import SessionRecord
from perdure.runtime.calls.approval_tool import NAME as APPROVAL
from perdure.runtime.definitions.tool import Gate, Tool
from perdure.runtime.ledger.policy import CODE, Intent, Objection, Policy
from perdure.runtime.policy.active_policy import PolicyState
from perdure.runtime.policy.call_facts import RUNNERS
from perdure.runtime.policy.gates import gate_of


class OwnPolicy(msgspec.Struct, frozen=True):
    """The policy of an agent itself. The default is the policy that ships, which the store's replaces.

    `allowed` are tools that the default does not ask about.
    """

    function: Policy
    is_default: bool = False
    allowed: frozenset[str] = frozenset()


class Sources(msgspec.Struct, frozen=True):
    """Who may object to the calls of a session. `own` is None for a program."""

    state: PolicyState
    code: Policy
    own: OwnPolicy | None = None
    repository: tuple[PolicyDocument, ...] = ()

    @property
    def base(self) -> PolicyDocument | None:
        """The document that decides; None: only functions do."""
        if self.state.version > 0:
            return self.state.document
        replaced = self.code.is_given if self.own is None else not self.own.is_default
        return None if replaced else self.state.document


def objections_to(
    tool: Tool[..., Any], arguments: dict[str, Any], facts: Facts, session: SessionRecord, sources: Sources
) -> tuple[list[Objection], str | None]:
    """Everything that objects to a call, and the rule that allows it if nothing does."""
    if tool.name == APPROVAL:  # to ask people is no act
        return list(_of_tool(tool)), None
    if facts.action == "model":
        return objections_to_model(facts, session, sources)
    judged, found = _judged(facts, sources, tool.name)
    replay, targets = str(tool.replay), tool.targets_of(arguments)
    shown = Intent(
        tool.name, replay, arguments, targets, session.id, session.owner, session.repository, facts.origins,
        facts.action,
    )  # fmt: skip
    found += _of_functions(shown, tool.gate, sources)
    found += _of_tool(tool) if facts.action == "do" else ()
    allowed_by = (CODE if sources.code.is_given else None) if judged is None else judged.rule or DEFAULT
    return found, allowed_by


def objections_to_model(facts: Facts, session: SessionRecord, sources: Sources) -> tuple[list[Objection], str | None]:
    """Everything that objects to a call of a model: rules about the action `model`, and functions that declare it."""
    judged, found = _judged(facts, sources, facts.tool)
    shown = Intent(
        facts.tool, facts.replay, facts.arguments, [], session.id, session.owner, session.repository, facts.origins,
        facts.action,
    )  # fmt: skip
    found += _of_functions(shown, None, sources)
    return found, None if judged is None else judged.rule or DEFAULT


def document_objections(facts: Facts, sources: Sources, tool: str) -> list[Objection]:
    """What the store's policy and the repository's have against a call, without code and gates."""
    return _judged(facts, sources, tool)[1]


def _judged(facts: Facts, sources: Sources, tool: str) -> tuple[Judgement | None, list[Objection]]:
    """How the store's policy judges a call, and what it and the repository's have against it."""
    base = sources.base
    judged = None if base is None else judge(base, _shown(facts, tool, sources))
    found = [] if judged is None else list(_of_document(judged, sources, tool))
    for document in sources.repository:
        found += _of_repository(judge(document, facts))
    return judged, found


def _shown(facts: Facts, tool: str, sources: Sources) -> Facts:
    """The facts for the store's policy. The one that ships does not look into commands of a program's own tools."""
    is_own = sources.state.version == 0 and sources.own is None and tool not in RUNNERS
    return msgspec.structs.replace(facts, command=None) if is_own and facts.command is not None else facts


def _of_document(judged: Judgement, sources: Sources, tool: str) -> Iterator[Objection]:
    excused = sources.state.version == 0 and sources.own is not None and tool in sources.own.allowed
    for one in judged.demands:
        if one.answer != "deny" and excused:
            continue
        gate = gate_of(one.gate)
        remembered = one.answer == "ask" and gate is None
        yield Objection(one.rule, one.answer, one.reason, gate, may_lift=True, may_remember=remembered)


def _of_repository(judged: Judgement) -> Iterator[Objection]:
    for one in judged.demands:
        gate = gate_of(one.gate)
        remembered = one.answer == "ask" and gate is None
        rule = OF_REPOSITORY + one.rule
        yield Objection(rule, one.answer, one.reason, gate, may_lift=True, may_remember=remembered)


def _of_functions(shown: Intent, gate: Gate | None, sources: Sources) -> list[Objection]:
    functions = [sources.code] if sources.own is None else [sources.code, sources.own.function]
    return [said for one in functions for said in _of_function(one, shown, gate, is_agent=sources.own is not None)]


def _of_function(function: Policy, shown: Intent, gate: Gate | None, *, is_agent: bool) -> list[Objection]:
    """What a function has against a call. One that fails allows nothing: a program fails, and an agent's person is
    asked."""
    try:
        said = function.objection(shown, gate)
    except Exception:
        if not is_agent:
            raise
        said = Objection(CODE, "ask", "A policy in code failed.")
    return [] if said is None else [said]


def _of_tool(tool: Tool[..., Any]) -> Iterator[Objection]:
    if tool.gate is not None:
        yield Objection(f"gate:{tool.gate.name}", "ask", f"The gate {tool.gate.name} asks.", tool.gate)
