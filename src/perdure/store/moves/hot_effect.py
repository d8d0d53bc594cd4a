"""The ledger's two hot moves: the first dispatch of a new effect, and its acknowledgement by the same holder.

They write what `effect.plan_and_dispatch` and `effect.settle` write, without reading first (`hot_move`), in the plain
case: no approval, no lease, no predecessor, no request to cancel or interrupt, one attempt, and no outcome yet. In any
other case they return None, and the move runs the regular way.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import msgspec

from perdure.domain.effect import AttemptOutcome, Effect, EffectState
from perdure.domain.lease import Holder
from perdure.ids import decode
from perdure.store.hot_move import GuardedWrite, guarded_write
from perdure.store.move import StoreTransaction
from perdure.store.moves.effect_input import AttemptResult, Dispatch, NewEffect

PLAIN = frozenset(
    {
        "id", "task_id", "position", "generation", "tool", "replay", "targets", "intent", "intent_digest",
        "idempotency_key", "policy_version", "rule", "reach", "inflight", "key_ttl", "retry",
    }
)  # fmt: skip
NOT_PLAIN = tuple(name for name in NewEffect.__struct_fields__ if name not in PLAIN)
UNKNOWN = dict.fromkeys(("reference", "result", "artifact", "error", "settled_at", "settled_number"))
NOTHING: dict[str, Any] = dict.fromkeys(Effect.__struct_fields__)
DISPATCH = ("session.advance_held", "event.insert", "effect.begin", "attempt.begin")
SETTLE = ("session.advance_acting", "event.insert", "effect.acknowledge", "attempt.acknowledge")

_fields_of = attrgetter(*NewEffect.__struct_fields__)


def dispatch(
    tx: StoreTransaction, holder: Holder, intent: NewEffect, dispatch: Dispatch
) -> GuardedWrite[Effect] | None:
    """Plan and dispatch in one guarded move."""
    if (
        holder.cancel_requested
        or holder.interrupt_requested
        or dispatch.exemptions
        or (intent.rule, intent.policy_version) != (dispatch.rule, dispatch.policy_version)
        or any(getattr(intent, name) is not None for name in NOT_PLAIN)
    ):
        return None
    head = holder.head
    columns = new_columns(intent, holder.uid, head[0] + 1, EffectState.DISPATCHED)
    body, answer = {"attempt": 1, "rows": {"effect": [log_columns(columns, tx.now)]}}, new_record(columns, tx.now)
    values = columns | msgspec.structs.asdict(dispatch)
    kind = "effect.dispatched"
    return guarded_write(
        tx, holder, head, "effect.dispatch_held", DISPATCH, kind, body, answer, values, effect_id=intent.id
    )


def settle(
    tx: StoreTransaction,
    id: str,
    number: int,
    outcome: AttemptResult,
    *,
    retry: int = 1,  # noqa: ARG001 - how often what failed is tried again
    holder: Holder | None = None,
    known: Effect | None = None,
) -> GuardedWrite[Effect] | None:
    """Acknowledge the first attempt of an effect that this holder dispatched in this run."""
    if known is None or holder is None or number != 1 or known.leases is not None:
        return None
    if outcome.outcome is not AttemptOutcome.ACKNOWLEDGED or (outcome.result is None and outcome.artifact is None):
        return None
    if outcome.error is not None:
        return None
    came = {"result": outcome.result, "artifact": outcome.artifact, "reference": outcome.reference}
    head = holder.head
    settled = {"settled_at": tx.now, "settled_number": head[0] + 1}
    unsaid = {"verdict": None, "verdict_by": None, "verdict_because": None}
    row = {"state": EffectState.ACKNOWLEDGED} | came | settled | unsaid | {"id": id, "error": None}
    answer = msgspec.structs.replace(known, state=EffectState.ACKNOWLEDGED, **came, **settled)
    body, kind = {"attempt": 1, "rows": {"effect": [row]}}, "effect.acknowledged"
    return guarded_write(tx, holder, head, "effect.settle_held", SETTLE, kind, body, answer, came, effect_id=id)


def new_columns(
    intent: NewEffect,
    uid: str,
    number: int,
    state: EffectState,
    *,
    approval_id: str | None = None,
    exemption_id: str | None = None,
) -> dict[str, Any]:
    """The columns of an effect when it is planned."""
    columns = dict(zip(NewEffect.__struct_fields__, _fields_of(intent), strict=True))
    own = {"session_uid": uid, "state": state, "approval_id": approval_id, "number": number}
    own["exemption_id"] = exemption_id
    return columns | own | UNKNOWN


def first_exemption(dispatch: Dispatch) -> str | None:
    """The exemption that an effect names; its uses name all of them."""
    return dispatch.exemptions[0] if dispatch.exemptions else None


def log_columns(columns: dict[str, Any], now: int) -> dict[str, Any]:
    """Those columns as the log shows them: JSON values instead of JSON text."""
    opened = {name: msgspec.Raw(text.encode()) for name in Effect.json_columns if (text := columns.get(name))}
    return columns | opened | {"planned_at": now}


def new_record(columns: dict[str, Any], now: int) -> Effect:
    """The record with these columns."""
    opened = {name: decode(text) for name in Effect.json_columns if (text := columns.get(name))}
    return Effect(**(NOTHING | columns | opened | {"planned_at": now}))
