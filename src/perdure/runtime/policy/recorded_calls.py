"""Past calls, judged again: why an effect is judged as it is, and what another policy would say of past effects.

The facts come from the record. Three are not known exactly for a past call: the cost is what the session has spent in
all, links of paths are followed as they are now, and what the session had read is left out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from typing import Any

import msgspec

from perdure.domain.effect import Effect, EffectState
from perdure.domain.exemption import AGENT, OF_REPOSITORY
from perdure.domain.literals import PolicyAnswer
from perdure.domain.policy import Facts, PolicyDocument, explain, judge
from perdure.domain.policy.document import STRICTNESS
from perdure.domain.policy.facts import Action
from perdure.domain.session import SessionRecord
from perdure.errors import ConfigError, PolicyDenied
from perdure.runtime.definitions.tool import TOOLS, Tool
from perdure.runtime.ledger.policy import CODE
from perdure.runtime.policy.call_facts import MODEL_CALL, CallSite, NoSession, folder_of, model_facts, recorded_facts
from perdure.runtime.policy.repository_policy import recorded
from perdure.store.move import StoreTransaction
from perdure.store.moves import effect as effects
from perdure.store.moves import session as sessions
from perdure.store.moves.attempt import attempts_of

MODEL, OWN = "model", "perdure."  # the tool of model calls; the start of the names of tools that only ask
NETWORKLESS = "bubblewrap"


class PolicyMatch(msgspec.Struct, frozen=True):
    """A rule that matches a call."""

    rule: str
    answer: PolicyAnswer
    reason: str
    line: int


class PolicyExplanation(msgspec.Struct, frozen=True):
    """How a call is judged, and why: every rule that matches, the strictest first.

    `version` is the policy that judges now. For an effect, `recorded_rule` and `recorded_version` are what it was
    judged by. Gates of tools and functions in code are not part of it: they may still ask or deny.
    """

    answer: PolicyAnswer
    rule: str | None
    reason: str
    version: int
    facts: Facts
    matches: tuple[PolicyMatch, ...] = ()
    effect: str | None = None
    recorded_rule: str | None = None
    recorded_version: str | None = None


class PolicyDifference(msgspec.Struct, frozen=True):
    """A past effect that a policy would have judged otherwise than it was."""

    effect: str
    session: str
    tool: str
    arguments: Any
    was: PolicyAnswer
    would_be: PolicyAnswer
    rule: str | None
    reason: str
    planned_at: int


class PolicyCheck(msgspec.Struct, frozen=True):
    """A policy that can be read and whose examples are answered as they say; and what it would change, if asked.

    `judged` is how many past effects were compared.
    """

    rules: int
    examples: int
    budgets: int = 0
    judged: int = 0
    differences: tuple[PolicyDifference, ...] = ()


def explained(
    document: PolicyDocument, version: int, facts: Facts, repository: tuple[PolicyDocument, ...] = (), **about: Any
) -> PolicyExplanation:
    """How the store's policy and the repository's judge a call."""
    found = [("", explain(document, facts))]
    found += [(OF_REPOSITORY, explain(one, facts)) for one in repository]
    prefix, strictest = max(found, key=lambda one: STRICTNESS[one[1].judgement.answer])  # of equal ones, the store's
    matches = [
        PolicyMatch(before + one.rule, one.answer, one.reason, one.line)
        for before, each in found
        for one in each.matches
    ]
    matches.sort(key=lambda one: -STRICTNESS[one.answer])
    judged = strictest.judgement
    rule = None if judged.rule is None else prefix + judged.rule
    return PolicyExplanation(judged.answer, rule, judged.reason, version, facts, tuple(matches), **about)


def effect_explained(
    tx: StoreTransaction, id: str, document: PolicyDocument, version: int, whole: Callable[[Effect], Effect]
) -> PolicyExplanation:
    """How the active policy judges an effect."""
    effect = whole(effects.find(tx, id))
    session = sessions.get(tx, effect.session_uid)
    about = {"effect": effect.id, "recorded_rule": effect.rule, "recorded_version": effect.policy_version}
    return explained(document, version, facts_of_effect(tx, effect, session), recorded(tx, session), **about)


async def differences(
    page: AsyncIterator[Effect], document: PolicyDocument, read: Callable[..., Any]
) -> tuple[int, list[PolicyDifference]]:
    """The past effects that a policy would judge otherwise, and how many were compared."""
    count, found, known = 0, [], {}
    async for effect in page:
        if effect.tool.startswith(OWN):
            continue
        count += 1
        if effect.session_uid not in known:
            known[effect.session_uid] = await read(sessions.get, effect.session_uid)
        session = known[effect.session_uid]
        judged = judge(document, await read(facts_of_effect, effect, session))
        if (was := judged_before(effect)) != judged.answer:
            found.append(
                PolicyDifference(
                    effect.id, session.id, effect.tool, effect.intent, was, judged.answer, judged.rule, judged.reason,
                    effect.planned_at,
                )
            )  # fmt: skip
    return count, found


def judged_before(effect: Effect) -> PolicyAnswer:
    """How the policy answered for an effect, as its record shows. What a gate or code asked is no answer of it."""
    error = effect.error if isinstance(effect.error, dict) else {}
    if effect.state == EffectState.REFUSED and error.get("code") == PolicyDenied.code:
        return "deny"
    by_policy = effect.rule not in (CODE, AGENT) and not (effect.rule or "").startswith("gate:")
    asked = effect.approval_id is not None or effect.exemption_id is not None
    return "ask" if asked and by_policy else "allow"


def facts_of_effect(
    tx: StoreTransaction, effect: Effect, session: SessionRecord, *, sandbox: str | None = None
) -> Facts:
    """The facts of a call, as its record shows them. `sandbox` is that of an attempt that is not recorded yet."""
    arguments = effect.intent if isinstance(effect.intent, dict) else {}
    site = CallSite(folder=folder_of(session), model=session.model, cost=session.cost_micros)
    if effect.tool in (MODEL, MODEL_CALL):
        return model_facts(str(arguments.get("model")), session, site)
    sandbox = sandbox or next((one.sandbox for one in attempts_of(tx, effect.session_uid, effect.id)), None)
    given = session.arguments if isinstance(session.arguments, dict) else {}
    if sandbox == NETWORKLESS and "network" in given:
        site = msgspec.structs.replace(site, network=bool(given["network"]))
    site = msgspec.structs.replace(site, sandbox=sandbox)
    is_undo = isinstance(effect.position, list) and effect.position[:1] == ["undo"]
    return recorded_facts(
        effect.tool.removesuffix(".undo") if is_undo else effect.tool, effect.replay, reach_of(effect), arguments,
        tuple(effect.targets or ()), session, site, "undo" if is_undo else "do",
    )  # fmt: skip


def call_explained(
    tool: str | None, arguments: Mapping[str, Any], session: SessionRecord | NoSession, action: Action
) -> Facts:
    """The facts of a call that a person asks about; what a tool that is not loaded here declares is not known."""
    site, given = CallSite(folder=folder_of(session), model=session.model), dict(arguments)
    if action == "model":
        return model_facts(str(given.get("model", tool or "")), session, site)
    assert tool is not None
    loaded = TOOLS.get(tool)
    if loaded is None:
        return recorded_facts(tool, "escalate", "outside", given, (), session, site, action)
    replay, reach = str(loaded.replay), str(loaded.reach)
    return recorded_facts(tool, replay, reach, given, _targets(loaded, given), session, site, action)


def supposed_site(
    sandbox: str | None, network: bool | None, origins: Collection[str], cost: float | None
) -> dict[str, Any]:
    """The facts that a person supposes about a call."""
    millionths = None if cost is None else round(cost * 1_000_000)
    given = {"sandbox": sandbox, "network": network, "origins": tuple(origins) or None, "cost": millionths}
    return {name: value for name, value in given.items() if value is not None}


def _targets(tool: Tool[..., Any], arguments: dict[str, Any]) -> tuple[str, ...]:
    """The targets of a call that may be incomplete."""
    try:
        return tuple(tool.targets_of(arguments))
    except ConfigError:
        return ()


def reach_of(effect: Effect) -> str:
    """How far an effect reaches; older rows do not say it."""
    loaded = TOOLS.get(effect.tool)
    return effect.reach or (str(loaded.reach) if loaded is not None else "outside")
