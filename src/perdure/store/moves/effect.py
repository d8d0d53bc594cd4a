"""The ledger's moves: plan, dispatch, settle. Effects in doubt are in `doubt`.

Planning and dispatching are holder moves: an old epoch can do neither. Settling is fenced by the attempt and not by
the epoch, because a known outcome must not be lost when the lease has changed hands. It is accepted until a newer
attempt was dispatched or the effect was otherwise resolved; after that it is kept in the log as a late outcome.
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.domain.caller import Place
from perdure.domain.effect import (
    MOVES,
    NOT_BEGUN,
    SETTLED,
    Attempt,
    AttemptOutcome,
    Effect,
    EffectState,
    Replay,
    Verdict,
    attempts_allowed,
    attempts_made,
    earlier_unknown,
)
from perdure.domain.lease import Holder
from perdure.domain.record import check_move
from perdure.domain.wait import WaitKind
from perdure.errors import ConfigError, Conflict, IllegalMove, NotFound
from perdure.ids import decode, encode
from perdure.store.hot_move import hot_holder_move, hot_outsider_move
from perdure.store.move import Log, StoreTransaction, holder_move, note_requests
from perdure.store.moves import attempt, effect_target, exemption, hot_effect, lease, wait
from perdure.store.moves.attempt import attempts_of
from perdure.store.moves.effect_input import AttemptResult, Dispatch, EffectKey, NewEffect

MANY = 1_000_000


@holder_move
def plan(log: Log, intent: NewEffect, *, approval_id: str | None = None) -> Effect:
    """Plan an effect. The same intent again returns that effect."""
    if there := get_or_none(log.tx, log.uid, intent.id):
        return there
    if intent.supersedes is not None:
        move(log, get(log.tx, log.uid, intent.supersedes), EffectState.SUPERSEDED, "effect.superseded")
    return _insert(log, intent, EffectState.PLANNED, "effect.planned", approval_id=approval_id)


@hot_holder_move(hot_effect.dispatch)
def plan_and_dispatch(log: Log, intent: NewEffect, dispatch: Dispatch) -> Effect:
    """Plan an effect and dispatch its first attempt; it has no gate. Only plan it if it must not begin now."""
    if is_held_back(log, decode(intent.position)):
        return plan.on(log, intent)
    if intent.supersedes is not None:
        move(log, get(log.tx, log.uid, intent.supersedes), EffectState.SUPERSEDED, "effect.superseded")
    taken = lease.claim(log, intent.id, decode(intent.position), decode(intent.leases)) if intent.leases else {}
    lifted = hot_effect.first_exemption(dispatch)
    made = _insert(
        log, intent, EffectState.DISPATCHED, "effect.dispatched", body={"attempt": 1} | taken, exemption_id=lifted
    )
    _attempt(log, intent.id, 1, dispatch)
    return made


@holder_move
def dispatch(log: Log, id: str, dispatch: Dispatch, *, because: str | None = None) -> int | None:
    """Record an attempt before it begins. Returns its number, or None in a session that is being stopped."""
    effect = get(log.tx, log.uid, id)
    return None if is_held_back(log, effect.position) else _begin(log, effect, dispatch, because)


def is_held_back(log: Log, position: Any) -> bool:
    """A session that is being cancelled or interrupted begins no new act; it may still undo."""
    requested = log.head.cancel_requested_at is not None or log.head.interrupt_requested_at is not None
    return requested and position[:1] != ["undo"]


def _begin(log: Log, effect: Effect, dispatch: Dispatch, because: str | None = None) -> int:
    id, number = effect.id, len(attempts_of(log.tx, log.uid, effect.id)) + 1
    if effect.state != EffectState.DISPATCHED:
        check_move("effect", MOVES, EffectState(effect.state), EffectState.DISPATCHED)
    used = _consume(log, effect) if effect.approval_id is not None else {}
    taken = lease.claim(log, id, effect.position, effect.leases) if effect.leases else {}
    under = {"policy_version": dispatch.policy_version, "rule": dispatch.rule}
    under["exemption_id"] = hot_effect.first_exemption(dispatch) or effect.exemption_id
    log.tx.send("effect.dispatch", uid=log.uid, id=id, **under)
    _attempt(log, id, number, dispatch)
    spent: dict[str, Any] = under | {
        "doubted_at": None,
        "doubt": None,
        "verdict": None,
        "verdict_by": None,
        "verdict_because": None,
    }
    row = {"id": id, "state": EffectState.DISPATCHED} | spent
    body = {"attempt": number, "because": because} | taken
    log.append("effect.dispatched", body, rows={"effect": [row]} | used, effect_id=id)
    return number


def _consume(log: Log, effect: Effect) -> dict[str, Any]:
    changed = log.tx.run(
        "approval.consume",
        uid=log.uid, id=effect.approval_id, effect_id=effect.id, intent_digest=effect.intent_digest,
    )  # fmt: skip
    if not changed:
        raise IllegalMove(f"Effect {effect.id} has no approval for exactly this intent.")
    return {"approval": [{"id": effect.approval_id, "consumed_by": effect.id}]}


def _insert(
    log: Log,
    intent: NewEffect,
    state: EffectState,
    kind: str,
    *,
    body: dict[str, Any] | None = None,
    outcome: AttemptResult | None = None,
    approval_id: str | None = None,
    exemption_id: str | None = None,
) -> Effect:
    now, number = log.tx.now, log.cursor + 1
    columns = hot_effect.new_columns(intent, log.uid, number, state, approval_id=approval_id, exemption_id=exemption_id)
    if outcome is not None:
        columns |= {"result": outcome.result, "artifact": outcome.artifact, "error": outcome.error}
        columns |= {"reference": outcome.reference, "settled_at": now, "settled_number": number}
    log.tx.send("effect.insert", **columns, now=now)
    log.append(kind, body, rows={"effect": [hot_effect.log_columns(columns, now)]}, effect_id=intent.id)
    return hot_effect.new_record(columns, now)


def _attempt(
    log: Log,
    effect_id: str,
    number: int,
    dispatch: Dispatch,
    outcome: AttemptResult | None = None,
    *,
    over: bool = False,
) -> None:
    """Insert an attempt: refused under another policy than the active one, unless it is `over` and cannot be undone."""
    assert log.holder is not None
    if dispatch.exemptions and (not over or (outcome and outcome.outcome is AttemptOutcome.ACKNOWLEDGED)):
        exemption.use(log.tx, log.uid, effect_id, dispatch.exemptions, over=over)
    under = {"policy_version": dispatch.policy_version} if over else {"fence": dispatch.fence}
    log.tx.send(
        "attempt.keep" if over else "attempt.insert",
        **under, rule=dispatch.rule,
        uid=log.uid, effect_id=effect_id, number=number, worker=dispatch.worker, epoch=log.holder.epoch,
        process=dispatch.process, sandbox=dispatch.sandbox, deadline_at=dispatch.deadline_at, now=log.tx.now,
        outcome=outcome.outcome if outcome else None, error=outcome.error if outcome else None,
        ended_at=log.tx.now if outcome else None, settled_at=log.tx.now if outcome else None,
        ended_boot=None,
    )  # fmt: skip


@holder_move
def record(log: Log, intent: NewEffect, dispatch: Dispatch, outcome: AttemptResult, *, over: bool = False) -> Effect:
    """Record an effect that was not dispatched before: a `pure` one that ran, or a `joint` one of this transaction.

    If the policy is another one than it was judged under, it is refused, unless it is `over`: a model that was paid,
    or an act that was rolled back.
    """
    if intent.replay not in (Replay.PURE, Replay.JOINT):
        raise ConfigError(f"A {intent.replay} effect is dispatched before it is settled.")
    done = outcome.outcome is AttemptOutcome.ACKNOWLEDGED
    state, kind = (EffectState.ACKNOWLEDGED, "effect.acknowledged") if done else (EffectState.FAILED, "effect.failed")
    lifted = hot_effect.first_exemption(dispatch) if done or not over else None
    made = _insert(log, intent, state, kind, outcome=outcome, body={"attempt": 1}, exemption_id=lifted)
    _attempt(log, intent.id, 1, dispatch, outcome, over=over)
    return made


@holder_move
def dispatch_and_settle(log: Log, id: str, dispatch: Dispatch, outcome: AttemptResult) -> Effect:
    """Dispatch and settle a planned `joint` effect, whose act is part of this transaction or was rolled back."""
    return settle.on(log, id, _begin(log, get(log.tx, log.uid, id), dispatch), outcome)


@hot_outsider_move(hot_effect.settle)
def settle(
    log: Log, id: str, number: int, outcome: AttemptResult, *, retry: int = 1, holder: Holder | None = None,
    known: Effect | None = None,  # noqa: ARG001 - the hot way reads it
) -> Effect:  # fmt: skip
    """Record the outcome of an attempt; a `holder` also receives the requests that were made of the session.

    `known` is the effect as that holder dispatched it for the first time, if it has not changed since.
    """
    if holder is not None:
        note_requests(holder, log.head)
        log.identity = ""  # the hot way writes none
    if outcome.outcome is AttemptOutcome.ACKNOWLEDGED and outcome.result is None and outcome.artifact is None:
        raise ConfigError("An acknowledged attempt needs a result; it may be null.")
    effect, attempts = get(log.tx, log.uid, id), attempts_of(log.tx, log.uid, id)
    if not _counts(effect, attempts, number, outcome):
        _keep_late(log, effect, attempts, number, outcome)
        return effect
    if _proves_only_itself(outcome) and effect.replay != Replay.PURE and earlier_unknown(attempts):
        outcome = msgspec.structs.replace(
            outcome, outcome=AttemptOutcome.UNKNOWN
        )  # it proves nothing about the earlier one
    mark = attempt.boot_mark(log.tx) if outcome.over and outcome.outcome is not AttemptOutcome.ACKNOWLEDGED else None
    log.tx.send(
        "attempt.settle",
        uid=log.uid, effect_id=id, number=number, outcome=outcome.outcome, error=outcome.error, now=log.tx.now,
        ended_at=log.tx.now if outcome.over else None, ended_boot=mark,
    )  # fmt: skip
    came: dict[str, Any] = {"attempt": number, "waited_for": not _is_fresh(log, effect, attempts[-1])}
    match outcome.outcome:
        case AttemptOutcome.ACKNOWLEDGED:
            move(log, effect, EffectState.ACKNOWLEDGED, "effect.acknowledged", outcome=outcome, **came)
        case AttemptOutcome.FAILED:
            has_attempts_left = attempts_made(attempts) < attempts_allowed(effect, retry)
            state = EffectState.PLANNED if has_attempts_left else EffectState.FAILED
            move(log, effect, state, "effect.failed", outcome=outcome, **came)
        case AttemptOutcome.ABSENT:
            move(log, effect, EffectState.PLANNED, "effect.absent", **came)
        case AttemptOutcome.UNKNOWN:
            _unknown(log, effect, number, outcome)
    return get(log.tx, log.uid, id)


def _proves_only_itself(outcome: AttemptResult) -> bool:
    """Whether it proves that this attempt did not happen, and nothing about earlier attempts."""
    return outcome.outcome is AttemptOutcome.FAILED or code_of(outcome.error) == NOT_BEGUN


def _unknown(log: Log, effect: Effect, number: int, outcome: AttemptResult) -> None:
    """The effect stays dispatched; a reference from the act shows a person where to check."""
    rows = None
    if outcome.reference is not None:
        log.tx.send("effect.refer", uid=log.uid, id=effect.id, reference=outcome.reference)
        rows = {"effect": [{"id": effect.id, "reference": outcome.reference}]}
    body = {"attempt": number, "error": raw_json(outcome.error)} | ({} if outcome.over else {"over": False})
    log.append("effect.unknown", body, rows=rows, effect_id=effect.id)


def _is_fresh(log: Log, effect: Effect, attempt: Attempt) -> bool:
    """Whether the holder settles what it dispatched, with nothing in between: no session can be waiting for it."""
    first = attempt.number == 1 and attempt.outcome is None  # an earlier one may be in doubt
    return first and effect.doubted_at is None and attempt.epoch == log.head.lease_epoch


def _keep_late(log: Log, effect: Effect, attempts: list[Attempt], number: int, outcome: AttemptResult) -> None:
    """Keep an outcome that no longer counts in the log, unless it repeats what is known."""
    said = next((one.outcome for one in attempts if one.number == number), None)
    if said == outcome.outcome and effect.state in SETTLED:
        return
    body = {"attempt": number, "outcome": outcome.outcome, "error": raw_json(outcome.error)}
    log.append("effect.late_outcome", body | {"result": raw_json(outcome.result)}, effect_id=effect.id)


def _counts(effect: Effect, attempts: list[Attempt], number: int, outcome: AttemptResult) -> bool:
    if not attempts or number != attempts[-1].number:
        return False
    if effect.state == EffectState.PLANNED:
        return outcome.outcome is AttemptOutcome.ACKNOWLEDGED and attempts[-1].outcome == AttemptOutcome.ABSENT
    return effect.state == EffectState.DISPATCHED and attempts[-1].outcome in (None, AttemptOutcome.UNKNOWN)


def code_of(error: str | None) -> str | None:
    """The code in an error as it is recorded."""
    said = decode(error) if error is not None else None
    return said.get("code") if isinstance(said, dict) else None


def raw_json(text: str | None) -> Any:
    return None if text is None else msgspec.Raw(text.encode())


def move(
    log: Log,
    effect: Effect,
    state: EffectState,
    kind: str,
    *,
    outcome: AttemptResult | None = None,
    verdict: tuple[Verdict, str, str] | None = None,
    waited_for: bool = True,
    **body: Any,
) -> None:
    """Change an effect's state and append its event; waits for its outcome are resolved."""
    check_move("effect", MOVES, EffectState(effect.state), state)
    final = state not in (EffectState.PLANNED, EffectState.DISPATCHED)
    kept = state in (EffectState.COMPENSATED, EffectState.SUPERSEDED)
    said = verdict or ((effect.verdict, effect.verdict_by, effect.verdict_because) if kept else (None, None, None))
    error = outcome.error if outcome else (encode(effect.error) if kept and effect.error is not None else None)
    reference = (outcome.reference if outcome else None) or effect.reference
    columns = {
        "state": state,
        "result": outcome.result if outcome else (effect.result if kept else None),
        "artifact": outcome.artifact if outcome else (effect.artifact if kept else None),
        "reference": None if state == EffectState.PLANNED else reference,
        "settled_at": log.tx.now if final else None,
        "settled_number": log.cursor + 1 if final else None,
        "verdict": said[0],
        "verdict_by": said[1],
        "verdict_because": said[2],
    }
    log.tx.send("effect.settle", uid=log.uid, id=effect.id, error=error, **columns)
    row = columns | {"id": effect.id, "error": raw_json(error)}
    if effect.undo_requested_at is not None and state == EffectState.COMPENSATED:
        row["undo_requested_at"] = None  # `compensated` ends the request
    log.append(kind, body, rows={"effect": [row]}, effect_id=effect.id)
    if effect.leases and (final or said[0] != Verdict.ABSENT):  # a verdict does not end an act that is under way
        lease.release_claims(log, effect.id, effect.leases)
    for asked in wait.open_for(log.tx, log.uid, effect.id) if waited_for else ():
        if asked.kind in (WaitKind.DOUBT, WaitKind.TIMER):
            wait.settle(log, asked, verdict[0] if verdict else state)


@holder_move
def refuse(log: Log, id: str, code: str, message: str) -> Effect:
    """Refuse an effect that is not allowed and was never dispatched."""
    effect = get(log.tx, log.uid, id)
    refused = AttemptResult(outcome=AttemptOutcome.FAILED, error=encode({"code": code, "message": message}))
    move(log, effect, EffectState.REFUSED, "effect.refused", outcome=refused)
    return get(log.tx, log.uid, id)


def get(tx: StoreTransaction, uid: str, id: str) -> Effect:
    if (found := get_or_none(tx, uid, id)) is None:
        raise NotFound(f"There is no effect {id} in this session.")
    return found


def get_or_none(tx: StoreTransaction, uid: str, id: str) -> Effect | None:
    row = tx.one("effect.get", uid=uid, id=id)
    return Effect.from_row(row) if row else None


def find(tx: StoreTransaction, name: str, uid: str | None = None) -> Effect:
    """One effect by its id or a unique prefix of it, of one session or of any."""
    found = with_prefix(tx, name, uid=uid, limit=3) if name else []
    if not found:
        raise NotFound(f"There is no effect {name!r}.", hint="`perdure effects` lists them.")
    if len(found) > 1:
        if found[1].id == name:
            raise Conflict(f"Several sessions have an effect {name}.", hint="Name its session.")
        names = ", ".join(one.id for one in found)
        raise Conflict(f"Several effects begin with {name!r}: {names}.", hint="Give more characters.")
    return found[0]


def with_prefix(tx: StoreTransaction, prefix: str, *, uid: str | None = None, limit: int) -> list[Effect]:
    """Effects whose id has this prefix, by id, of one session or of any."""
    rows = tx.all("effect.by_id", prefix=prefix, beyond=prefix + "\U0010ffff", uid=uid, limit=limit)
    return [Effect.from_row(row) for row in rows]


def of_session(tx: StoreTransaction, uid: str, *, after: int = 0, through: int = 2**62) -> list[Effect]:
    """Every effect that a session planned between two events, in order."""
    return list(map(Effect.from_row, tx.all("effect.of_session", uid=uid, after=after, through=through, limit=MANY)))


def successor(tx: StoreTransaction, uid: str, id: str) -> Effect | None:
    """The effect that replaces one that was undone."""
    row = tx.one("effect.successor", uid=uid, id=id)
    return Effect.from_row(row) if row else None


def unsettled(tx: StoreTransaction, uid: str) -> list[Effect]:
    return [Effect.from_row(row) for row in tx.all("effect.unsettled", uid=uid, limit=MANY)]


def listing(
    tx: StoreTransaction,
    *,
    uid: str | None = None,
    state: str | None = None,
    tool: str | None = None,
    in_doubt: bool = False,
    since: int = 0,
    target: str | None = None,
    reach: str | None = None,
    before: Effect | EffectKey | None = None,
    limit: int = 1000,
    places: list[Place] | None = None,
) -> list[Effect]:
    """Effects by an operator's filters, the newest first, after `before`. A target may end in `*`.

    With `places`, the place of each one's session is added to it.
    """
    name, values = "effect.list", effect_target.bounds(target)
    if target is not None and values["beyond"] is None:
        name, values = "effect.of_target", {"target": values["target"]}
    rows = tx.all(
        name,
        uid=uid, state=state, tool=tool, reach=reach, in_doubt="yes" if in_doubt else None, since=since, limit=limit,
        before=before.planned_at if before else 2**62, before_id=before.id if before else "", **values,
    )  # fmt: skip
    if places is not None:
        places += [Place(*row[-2:]) for row in rows]
    return [Effect.from_row(row[:-2]) for row in rows]
