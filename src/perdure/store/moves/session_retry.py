"""Retry of a failed session, in place: its program runs again from its records.

    retry    a person makes a failed session ready
    fail     a program ends with an error: if retries are left, its session waits and runs again, else it has failed

What is on record stays on record and answers as before, also an error that the program caught. Only what ended the
program runs again. The event names it by the numbers of its events:

    step      the record of a failed step: it is computed again, and recorded under a name of its own
    effect    a proven failure, an expired approval, or a plan that was refused when the session failed: the same call
              is done as the next generation, with another key
    wait      for a child that failed: the child is retried first, and waited for again

An error that no record caused is the program's own: nothing is repeated, and its code runs again. A failure that was
only being handled when the program ended was caught: it is repeated only if nothing was recorded after it, because its
handler may have acted instead.

A person's decision is not taken back by a retry: an effect that was denied, abandoned or undone stays that way. Neither
is a result that could not be stored: its effect has happened. Such a session fails although retries are left.

A retry without a person is one transaction: what would end the session as failed makes it wait instead. A process that
is killed leaves the session running, and the next one ends it in the same way; it never sees it as failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from perdure.clock import SECOND
from perdure.domain.effect import Effect, EffectState, Verdict
from perdure.domain.record import check_move
from perdure.domain.session import MOVES, SessionRecord, Status
from perdure.domain.step import INHERITED
from perdure.domain.wait import RETRY, WaitKind
from perdure.errors import ConfigError, IllegalMove, ProgramChanged
from perdure.ids import digest
from perdure.store.move import Log, StoreTransaction, holder_move, outsider_move
from perdure.store.moves import effect as effects
from perdure.store.moves import event, session, wait
from perdure.store.moves import step as steps
from perdure.store.moves.session_end import CANCELLED, CLOSED, close_waits, is_under_way
from perdure.store.topics import TIMERS

KIND = "session.retried"
DENIED = ("approval-denied", "policy-denied")
FINAL = frozenset({*DENIED, ConfigError.code, ProgramChanged.code})  # errors that a retry would only repeat
FIRST_DELAY, LONGEST_DELAY = 10 * SECOND, 3600 * SECOND


@outsider_move
def retry(log: Log, *, with_parent: bool = False, lines: Sequence[Mapping[str, Any]] = ()) -> None:
    """Make a failed session ready. `lines` are added to an agent's transcript. A child is retried `with_parent`.

    A deadline that has passed is removed: it would cancel the session at once, and no retry could take that back.
    """
    now = session.get(log.tx, log.uid)
    again = check(log.tx, now, with_parent=with_parent)
    changed: dict[str, Any] = {"status": Status.READY, "error": None, "retries": (now.retries or 0) + 1}
    deadline_at = now.deadline_at if (now.deadline_at or 0) > log.tx.now else None
    log.tx.run("session.retry", uid=log.uid, retries=changed["retries"], deadline_at=deadline_at, now=log.tx.now)
    log.tx.run("session.enqueue", uid=log.uid)
    log.tx.wake(log.head.queue)
    requests = ("cancel_requested_at", "pause_requested_at", "interrupt_requested_at", "archived_at")
    changed |= dict.fromkeys(requests) | {"deadline_at": deadline_at}
    log.append(KIND, {"again": again}, rows={"session": changed})
    if deadline_at is not None:
        log.tx.wake_service(TIMERS)
    for line in lines:
        log.append("message", line)


@holder_move
def fail(log: Log, error: Any, *, retry: bool = True, lines: Sequence[Mapping[str, Any]] = ()) -> bool:
    """End a program that raised an error; False: an effect may be under way, so it runs again first.

    `retry`: the caller has retried the children that caused the error. `lines` are added to an agent's transcript.
    """
    if is_under_way(log):
        return False
    close_waits(log, f"The session is {Status.FAILED}.")
    now = msgspec.structs.replace(session.get(log.tx, log.uid), error=error)
    again = _repeated_by_itself(log.tx, now) if retry else None
    if again is None:
        session.finish.on(log, Status.FAILED, error=error)
        return True
    number = (now.retries or 0) + 1
    log.tx.run("session.count_retry", uid=log.uid, retries=number)
    log.append(KIND, {"again": again, "error": error, "of": now.max_retries}, rows={"session": {"retries": number}})
    for line in lines:
        log.append("message", line)
    detail = {"retry": number, "of": now.max_retries, "error": _short(error)}
    asked = wait.open_.on(
        log, f"{RETRY}-{number}", WaitKind.TIMER, detail=detail, due_at=log.tx.now + delay(log.uid, number)
    )
    session.park_row(log, [asked.id])
    return True


def has_retry_left(now: SessionRecord, error: Any) -> bool:
    """Whether a session that ends with an error is retried without a person, if nothing that ended it must stay."""
    code = error.get("code") if isinstance(error, dict) else None
    spent = (now.retries or 0) >= (now.max_retries or 0)
    return not spent and now.cancel_requested_at is None and code not in FINAL


def _repeated_by_itself(tx: StoreTransaction, now: SessionRecord) -> list[int] | None:
    """What a retry without a person repeats; None: the session fails."""
    if not has_retry_left(now, now.error):
        return None
    try:
        return to_repeat(tx, now, now.error)
    except IllegalMove:
        return None


def delay(uid: str, number: int) -> int:
    """The time before a retry, in microseconds: it doubles each time, and differs between sessions by up to a half."""
    longest = min(FIRST_DELAY << min(number - 1, 40), LONGEST_DELAY)
    return longest * (750 + int(digest(f"{uid} {number}")[:8], 16) % 500) // 1000


def _short(error: Any) -> dict[str, Any]:
    return {key: error.get(key) for key in ("type", "code", "message")} if isinstance(error, dict) else {}


def check(tx: StoreTransaction, now: SessionRecord, *, with_parent: bool = False) -> list[int]:
    """The numbers of the events whose records a retry repeats; refused if the session cannot be retried."""
    if now.status != Status.FAILED:
        raise IllegalMove(
            f"Session {now.id} is {now.status}, and only a failed session is retried.", hint=_instead(now)
        )
    if now.parent_uid is not None and not with_parent:
        parent = session.get(tx, now.parent_uid)
        raise IllegalMove(
            f"Session {now.id} is a child of session {parent.id}, which has its failure already.",
            hint=f"Retry the parent: `perdure retry {parent.id}`.",
        )
    check_move("session", MOVES, Status.FAILED, Status.READY)
    return to_repeat(tx, now, now.error)


def _instead(now: SessionRecord) -> str:
    if now.status in (Status.DONE, Status.CANCELLED):
        return f"`perdure fork {now.id}` makes a branch of it that runs."
    return f"`perdure resume {now.id}` continues it."


def to_repeat(tx: StoreTransaction, now: SessionRecord, error: Any) -> list[int]:
    """The numbers of the events whose records a retry repeats after an error; refused if what raised it must stay."""
    failure = error if isinstance(error, dict) else {}
    if failure.get("code") == ProgramChanged.code:
        raise _refusal(now, "its program has changed and does not fit its records")
    cause: Mapping[str, Any] = failure.get("cause") or {}
    made = effects.of_session(tx, now.uid)
    asked = wait.of_session(tx, now.uid)
    waits = {one.id: one for one in asked if one.kind == WaitKind.CHILD}
    own = {one.id for one in made} | waits.keys()
    foreign = INHERITED in cause.get("steps", ()) or {*cause.get("effects", ()), *cause.get("waits", ())} - own
    if foreign and now.forked_from is not None:
        raise IllegalMove(
            f"Session {now.id} cannot be retried: it inherited its failure from the session that it was forked from.",
            hint="Retry that session, and fork it again.",
        )
    for one in made:
        if one.id in cause.get("effects", ()) and (why := _stays(one)) is not None:
            raise _refusal(now, f"its effect {one.id} ({one.tool}) {why}")
    failed = [step.number for step in steps.failed(tx, now.uid)]
    answers = (one for one in asked if one.kind in (WaitKind.CHILD, WaitKind.INPUT) and one.resolved_by != CLOSED)
    ends = [one.settled_number or 0 for one in made] + [one.resolved_number or 0 for one in answers]
    last = max([steps.newest(tx, now.uid), *ends])
    found = {number for number in failed if number in cause.get("steps", ()) or number == last}
    for one in made:
        ended_it = one.id in cause.get("effects", ()) or one.settled_number == last
        if was_refused_at_the_end(one) or (ended_it and _has_failed(one)):
            found.add(one.number)
    ended = [waits[id] for id in cause.get("waits", ()) if id in waits]
    caught = [waits[id] for id in cause.get("handled", ()) if id in waits]
    ended += [one for one in caught if one.resolved_number == last]  # its handler did nothing else
    return sorted(found | {one.number for one in ended})


def was_refused_at_the_end(effect: Effect) -> bool:
    """Whether it was planned, and refused only because its session ended."""
    return effect.state == EffectState.REFUSED and (effect.error or {}).get("code") == CANCELLED


def _has_failed(effect: Effect) -> bool:
    return effect.state in (EffectState.FAILED, EffectState.REFUSED) and _stays(effect) is None


def _stays(effect: Effect) -> str | None:
    """Why an effect that ended a session cannot be done again by a retry."""
    error = effect.error if isinstance(effect.error, dict) else {}
    if effect.state == EffectState.ACKNOWLEDGED:
        return "has happened, and its result could not be stored"
    if effect.state == EffectState.COMPENSATED:
        return "was undone"
    if effect.state == EffectState.FAILED and effect.verdict == Verdict.ABANDON:
        return f"was abandoned by {effect.verdict_by}"
    return "was denied" if effect.state == EffectState.REFUSED and error.get("code") in DENIED else None


def _refusal(now: SessionRecord, why: str) -> IllegalMove:
    return IllegalMove(
        f"Session {now.id} cannot be retried: {why}.",
        hint=f"Correct the program, then make a branch at its end: `perdure fork {now.id}`.",
    )


def repeated(tx: StoreTransaction, now: SessionRecord, through: int) -> frozenset[int]:
    """The numbers of the events whose records retries of a session have taken back, up to an event."""
    if not now.retries:
        return frozenset()
    found = event.of_kind(tx, now.uid, KIND, through=through)
    return frozenset(number for one in found for number in (one.body or {}).get("again", ()))
