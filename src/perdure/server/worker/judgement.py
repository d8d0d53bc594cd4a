"""Judging again: what a worker dispatches is allowed by the policy of the store as the service judges the record.

The worker has judged the call already, with more facts: what an agent has read, and functions in code. The service
does not rely on it. It judges the recorded intent by the active policy, in the transaction of the dispatch:

    allow    it is dispatched
    ask      an approval of exactly this intent meets the gates that ask now, or exemptions lift what asks
    deny     refused, whatever the worker says

Before a policy was set in the store there is none to judge by: the one that ships is replaced by code of the worker.
A gate that a tool declares in code is the worker's as well.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from perdure.agent.permissions import GATE as AGENT_GATE
from perdure.domain.effect import Effect, EffectState, idempotency_key
from perdure.domain.session import SessionRecord
from perdure.errors import PolicyChanged, PolicyDenied
from perdure.runtime.calls.approval_tool import NAME as APPROVAL
from perdure.runtime.ledger.exemptions import lift_in
from perdure.runtime.ledger.policy import GATE, Basis, Policy, Ruling, rule_on
from perdure.runtime.policy.active_policy import PolicyState, state_in
from perdure.runtime.policy.budgets import limiting, reached
from perdure.runtime.policy.call_facts import MODEL_CALL
from perdure.runtime.policy.objections import Sources, document_objections
from perdure.runtime.policy.recorded_calls import MODEL, facts_of_effect, reach_of
from perdure.runtime.policy.repository_policy import recorded
from perdure.runtime.record_edits import is_agent
from perdure.store.move import StoreTransaction
from perdure.store.moves import approval, hot_effect
from perdure.store.moves import effect as effects
from perdure.store.moves.effect_input import Dispatch, NewEffect

Whole = Callable[[Effect], Effect]
NEW, KNOWN, RAN = "new", "known", "ran"
DISPATCHES = {
    "effect.plan_and_dispatch": NEW,
    "effect.dispatch": KNOWN,
    "effect.record": RAN,
    "message.record_reply": RAN,
}


def judge_again(tx: StoreTransaction, name: str, args: list[Any], session: SessionRecord, whole: Whole) -> None:
    """Refuse a dispatch that the policy does not allow."""
    if (kind := DISPATCHES.get(name)) is None:
        return
    state, dispatch = state_in(tx), args[2]
    if state.version == 0 or state.fence.fence is None:  # a frozen policy has no fence that fits
        return
    if state.document is None:
        raise PolicyDenied(f"The service cannot judge this call: {state.error}", hint="Update the service.")
    effect = _recorded(tx, session, args[1], kind)
    if effect is None or effect.tool == APPROVAL:
        return
    if name == "message.record_reply" and dispatch.policy_version != str(state.version):
        return  # the policy changed while the model was called; what was paid for is kept
    if name == "effect.record" and dispatch.fence != state.fence.fence:
        return  # the policy changed while it ran; the move is refused, and the call judged anew
    ruling = _ruling(tx, state, whole(effect), session, dispatch)
    if ruling.answer == "deny":
        raise PolicyDenied(f"The service does not allow {effect.tool}: {ruling.why}", hint="Ask an owner of the store.")
    if ruling.answer == "ask" and not _approved(tx, effect, session, ruling):
        raise PolicyDenied(f"The service needs an approval for {effect.tool} that is not there: {ruling.why}")
    if not set(ruling.exemptions) <= set(dispatch.exemptions):
        raise PolicyChanged("An exemption that allows this call would not be counted; it is judged anew.")
    if kind is not RAN and effect.state != EffectState.DISPATCHED and effect.position[:1] != ["undo"]:
        _check_budgets(tx, state, effect, session)


def _recorded(tx: StoreTransaction, session: SessionRecord, given: Any, kind: str) -> Effect | None:
    """The effect as it is recorded, or as it will be."""
    if kind == KNOWN:
        return effects.get_or_none(tx, session.uid, given)
    intent: NewEffect = given
    there = effects.get_or_none(tx, session.uid, intent.id)
    columns = hot_effect.new_columns(intent, session.uid, 0, EffectState.PLANNED)
    return there or hot_effect.new_record(columns, tx.now)


def _ruling(
    tx: StoreTransaction, state: PolicyState, effect: Effect, session: SessionRecord, dispatch: Dispatch
) -> Ruling:
    facts = facts_of_effect(tx, effect, session, sandbox=dispatch.sandbox)
    sources = Sources(state, Policy(None), repository=recorded(tx, session))
    basis = Basis(
        version=str(state.version), fence=state.fence.fence or "",
        gate=AGENT_GATE if is_agent(tx, session) else GATE, requester=session.owner or session.id, now=tx.now,
    )  # fmt: skip
    ruling = rule_on(document_objections(facts, sources, effect.tool), basis)
    return lift_in(tx, ruling, session, effect.tool, effect.id, effect.intent_digest)


def _approved(tx: StoreTransaction, effect: Effect, session: SessionRecord, ruling: Ruling) -> bool:
    if ruling.question is None:
        return False
    if effect.tool == MODEL:
        return _permitted(tx, effect, session, ruling)
    return effect.approval_id is not None and not approval.must_ask(tx, effect, ruling.question)


def _permitted(tx: StoreTransaction, effect: Effect, session: SessionRecord, ruling: Ruling) -> bool:
    """Whether people allowed this call of a model: their approval is an effect of its own (`agent.permissions`)."""
    assert ruling.question is not None
    arguments = {"model": str(effect.intent.get("model"))} if isinstance(effect.intent, dict) else {}
    position = ["permit", *effect.position]
    for generation in count():
        key = idempotency_key(session.uid, position, MODEL_CALL, arguments, generation)
        there = effects.get_or_none(tx, session.uid, "e-" + key[:16])
        if there is None:
            return False
        if there.state == EffectState.ACKNOWLEDGED and not approval.must_ask(tx, there, ruling.question):
            return True
    return False


def _check_budgets(tx: StoreTransaction, state: PolicyState, effect: Effect, session: SessionRecord) -> None:
    budgets = limiting(state, reach_of(effect))
    if budgets and (found := reached(tx, budgets, session)) is not None:
        raise PolicyChanged(f"The budget {found[0].name} is used up; the call is judged anew.")
