"""An audit of the ledger of a swept session, by the rules that hold for every ledger."""

from __future__ import annotations

from collections import Counter
from typing import Any

from perdure.domain.approval import ApprovalDecision
from perdure.domain.effect import Effect, EffectState, Replay, intent_digest
from perdure.domain.session import TERMINAL
from perdure.domain.wait import WaitKind
from perdure.errors import Damaged
from perdure.store.move import StoreTransaction
from perdure.store.moves import approval, event, wait
from perdure.store.moves import effect as effects
from perdure.store.moves import session as sessions
from perdure.store.moves.attempt import attempts_of

KNOWN = {"effect.acknowledged", "effect.failed", "effect.absent", "effect.compensated", "effect.refused"}
FAMILY = 1000


def audit(tx: StoreTransaction, uids: list[str]) -> dict[str, Any]:
    """The sessions and their children: what they waited for, their effects, and what is wrong with them."""
    found: dict[str, Any] = {"waits": Counter(), "effects": [], "events": [], "problems": []}
    todo = list(dict.fromkeys(uids))
    for uid in todo:
        todo += [one for one in _children(tx, uid) if one not in todo]
        _audit_session(tx, uid, found)
    return found


def _children(tx: StoreTransaction, uid: str) -> list[str]:
    return [one.ref for one in wait.of_session(tx, uid) if one.kind == WaitKind.CHILD and one.ref is not None]


def _audit_session(tx: StoreTransaction, uid: str, found: dict[str, Any]) -> None:
    session = sessions.get(tx, uid)
    problems = found["problems"]
    if session.status not in TERMINAL:
        asks = sorted({one.kind for one in wait.open_of_session(tx, uid)})
        problems.append(["stuck", f"{session.id} is {session.status}, waiting for {asks}"])
    try:
        event.verify(tx, uid)
    except Damaged as damage:
        problems.append(["broken", damage.message])
    lines = event.after(tx, uid, 0, limit=100_000)
    found["events"].append([[line.kind, line.actor] for line in lines])
    resolved = Counter(row["id"] for line in lines if line.kind == "wait.resolved" for row in line.body["rows"]["wait"])
    problems += [["broken", f"wait {id} was resolved {times} times"] for id, times in resolved.items() if times > 1]
    for one in wait.of_session(tx, uid):
        is_message = isinstance(one.detail, dict) and one.detail.get("receive")  # how often it waits is chance
        if not one.id.startswith("inflight-") and not is_message:
            found["waits"][one.kind] += 1
    for effect in effects.of_session(tx, uid):
        own = [line for line in lines if line.effect_id == effect.id]
        found["effects"].append(_summary(tx, effect, own))
        problems += _problems_of(tx, effect, own)


def _summary(tx: StoreTransaction, effect: Effect, own: list[Any]) -> dict[str, Any]:
    attempts = attempts_of(tx, effect.session_uid, effect.id)
    return {
        "id": effect.id,
        "session": effect.session_uid,
        "key": effect.idempotency_key,
        "tool": effect.tool,
        "replay": effect.replay,
        "state": effect.state,
        "intent": effect.intent,
        "attempts": [attempt.outcome for attempt in attempts],
        "workers": [attempt.worker for attempt in attempts],
        "questions": sum(line.kind == "effect.doubted" for line in own),
        "late": sum(line.kind == "effect.late_outcome" for line in own),
    }


def _problems_of(tx: StoreTransaction, effect: Effect, own: list[Any]) -> list[list[str]]:
    """What must not be in the ledger about an effect."""
    problems: list[list[str]] = []
    known, allowed, dispatched = True, True, 0
    for line in own:
        if line.kind == "effect.doubted" and known:
            problems.append(["needless", f"{effect.tool} {effect.id}: a person was asked though its outcome was known"])
        if line.kind == "effect.dispatched":
            if effect.replay == Replay.ESCALATE and dispatched and not allowed:
                problems.append(
                    ["blind", f"{effect.tool} {effect.id} was dispatched again without a verdict of a person"]
                )
            known, allowed, dispatched = False, False, dispatched + 1
        if line.kind == "effect.presumed":  # it may have been dispatched in the time that a restore lost
            known = False
        if line.kind in KNOWN:
            known, allowed = True, True
    if effect.state in (EffectState.PLANNED, EffectState.DISPATCHED):
        problems.append(["stuck", f"{effect.tool} {effect.id} is {effect.state}"])
    return problems + _unapproved(tx, effect, dispatched)


def _unapproved(tx: StoreTransaction, effect: Effect, dispatched: int) -> list[list[str]]:
    exact = intent_digest(effect.tool, effect.intent, effect.targets)
    if effect.intent_digest != exact:
        return [["unapproved", f"{effect.tool} {effect.id}: the digest is not of what was done"]]
    if effect.approval_id is None or not dispatched:
        return []
    given = approval.get(tx, effect.session_uid, effect.approval_id)
    if given.decision == ApprovalDecision.APPROVED and given.consumed_by == effect.id and given.intent_digest == exact:
        return []
    return [["unapproved", f"{effect.tool} {effect.id} was dispatched, and approval {given.id} was not used for it"]]
