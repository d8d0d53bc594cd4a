"""The moves that end a run of a session. They also close the waits and planned effects that are no longer needed.

    park      the session waits; refused if a wait is resolved already, if cancel or interrupt was requested meanwhile,
              or if it stopped for a pause whose request was withdrawn
    park for  what the process of its holder does not have, such as code; nothing else of the session changes
    finish    the session ends; refused while an effect may be under way or an undo is requested
    cancel    requests cancellation, and ends the session at once if no worker runs it
    expire_deadline    the same, for a session whose deadline has passed
    stop      honours a request to cancel: planned effects are refused, and the session ends if it can
    close     a person ends a session that only waits for the next message; refused while an effect is unsettled
    restart   the program starts again; effects that its last run had only planned are refused

Each is one transaction, so a crash leaves the session before or after it, and never with a wait that has no purpose.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from perdure.domain.effect import Effect, EffectState
from perdure.domain.session import TERMINAL, Status
from perdure.domain.wait import Wait, WaitKind
from perdure.errors import IllegalMove
from perdure.store.move import Log, holder_move, outsider_move, read_head
from perdure.store.moves import approval, doubt, inbox, interrupt, lease, session, wait
from perdure.store.moves import effect as effects
from perdure.store.topics import WORKERS

CLOSED = "closed"  # resolves a wait that is no longer needed: it has no answer, and no branch inherits it
STOPPED = {"type": "Cancelled", "code": "cancelled", "message": "The session was cancelled."}
EXPIRED = {
    "type": "DeadlinePassed", "code": "deadline-passed", "message": "The session had not ended at its deadline.",
}  # fmt: skip
CANCELLED = "cancelled"  # the code of an effect that was refused because its session ended


@holder_move
def park(
    log: Log, waits: list[str], *, stopping: bool = False, pausing: bool = False, undos: Collection[str] = ()
) -> bool:
    """Release the lease and wait; False if the session must continue. `undos` are the requests the holder knows.

    `pausing`: the program was stopped by a request to pause. The holder's knowledge of it may be stale, so the row is
    read under its lock: without the request the program must continue. With it, and nothing else to wait for, the
    session waits for `paused`, opened in this transaction so that a `resume` comes before both or after both. A request
    to interrupt becomes a request to pause then; otherwise a session with such a request parks only for a message.
    """
    if log.head.cancel_requested_at is not None and not stopping:
        return False
    if log.head.interrupt_requested_at is not None and not stopping:
        if pausing:
            interrupt.become_pause(log)
        elif any(interrupt.is_rest(wait.get(log.tx, log.uid, id)) for id in waits):
            interrupt.remove(log)  # it came to rest by itself first; the next message must not be interrupted
        else:
            return False
    elif pausing and log.head.pause_requested_at is None:
        return False
    if any(one.undo_requested_at is not None and one.id not in undos for one in doubt.unfinished(log.tx, log.uid)):
        return False
    if pausing and not waits:
        waits = [wait.open_.on(log, f"paused-{log.cursor}", WaitKind.PAUSED).id]
    return not wait.park.on(log, waits)


@holder_move
def park_for(log: Log, kind: WaitKind, *, ref: str | None, detail: Any = None) -> bool:
    """Release the lease and wait for what the process of the holder does not have; False if the session continues."""
    there = [one.id for one in wait.open_of_kind(log.tx, log.uid, kind) if one.ref == ref]
    if not there:
        there = [wait.open_.on(log, f"{kind}-{log.cursor}", kind, ref=ref, detail=detail).id]
    asked = {one.id for one in doubt.unfinished(log.tx, log.uid) if one.undo_requested_at is not None}
    log.tx.wake_service(WORKERS)  # one of them may have it
    return park.on(log, there[:1], stopping=True, undos=asked)


@holder_move
def finish(log: Log, status: Status, *, result: Any = None, error: Any = None, hears: bool = False) -> bool:
    """End the session, if no effect may be under way; with `hears`, only if it has read every message."""
    if is_under_way(log) or (hears and inbox.unread(log.tx, log.uid, limit=1)):
        return False
    close_waits(log, f"The session is {status}.")
    session.finish.on(log, status, result=result, error=error)
    return True


@holder_move
def stop(log: Log) -> bool:
    """Honour a request to cancel."""
    _refuse_planned(log, "The session was cancelled first.")
    now = session.get(log.tx, log.uid)
    expired = now.deadline_at is not None and (now.cancel_requested_at or 0) >= now.deadline_at
    return finish.on(log, Status.CANCELLED, error=EXPIRED if expired else STOPPED)


@outsider_move
def cancel(log: Log, *, dead: str | None = None, now: bool = False) -> bool:
    """Request cancellation, and end the session if no worker runs it. False: its present or next holder ends it.

    Children are cancelled after their parent was asked and before it ends: if the caller is killed in between, the next
    holder of the parent cancels them. An effect that may be under way or is in doubt keeps a session waiting as it was.
    `dead` names a holder whose process was found dead. With `now`, what a worker does at the moment is interrupted.
    """
    return _cancel(log, dead, now=now)


@outsider_move
def expire_deadline(log: Log, *, dead: str | None = None) -> bool:
    """Cancel a session whose deadline has passed; False if it has not ended yet, or needs no end.

    The deadline is compared here again: the store's time may have been set back since it was found to be due.
    """
    due = session.get(log.tx, log.uid).deadline_at
    if due is None or due > log.tx.now or log.head.status in TERMINAL:
        return False
    return _cancel(log, dead, because=str(EXPIRED["code"]))


def _cancel(log: Log, dead: str | None, *, now: bool = False, because: str | None = None) -> bool:
    session.request_cancel(log, because)
    if now and log.head.status == Status.RUNNING:
        interrupt.request.on(log)
    holds = (log.head.lease_until or 0) >= log.tx.now and log.head.lease_holder != dead
    if log.head.status == Status.RUNNING and holds:
        return False
    if log.tx.one("session.unasked_child", uid=log.uid) is not None:
        session.wake_up.on(log)
        return False
    return stop.on(log)


@outsider_move
def close(log: Log, wait_id: str, *, nonce: str, result: Any) -> None:
    """End a session as done that waits for a message. `wait_id` names that wait: what was read before still holds.

    The mover holds the lease inside this transaction only, because no session ends without one.
    """
    session.refuse_finished(log)
    asked = wait.open_of_session(log.tx, log.uid)
    if left := doubt.unfinished(log.tx, log.uid):
        names = ", ".join(one.id for one in left[:3])
        raise IllegalMove(f"Session {log.head.id} has unsettled effects: {names}.", hint="Settle them, then close it.")
    if (
        log.head.status != Status.WAITING
        or not all(map(is_message_wait, asked))
        or wait_id not in [w.id for w in asked]
    ):
        raise IllegalMove(
            f"Session {log.head.id} is {log.head.status} and does not only wait for a message; it was not closed.",
            hint="`perdure show` tells what it waits for; `perdure cancel` ends it anyway.",
        )
    if inbox.unread(log.tx, log.uid, limit=1):
        raise IllegalMove(f"Session {log.head.id} has a message that it has not read; it was not closed.")
    close_waits(log, "The session was closed.")
    log.head = read_head(log.tx, log.uid)  # it is ready now
    lease.acquire.on(log, nonce=nonce, ttl=1)
    log.head = read_head(log.tx, log.uid)
    session.finish.on(log, Status.DONE, result=result)


@outsider_move
def archive(log: Log, *, undo: bool = False) -> None:
    """Hide a session from the list, or show it again. Only one that has ended, or waits for a message, is hidden."""
    asked = wait.open_of_session(log.tx, log.uid)
    rests = log.head.status == Status.WAITING and all(map(is_message_wait, asked))
    if not undo and not rests and log.head.status not in TERMINAL:
        raise IllegalMove(
            f"Session {log.head.id} is {log.head.status} and does not only wait for a message; it was not archived.",
            hint=f"`perdure show {log.head.id}` shows what it waits for.",
        )
    session.set_archived(log, None if undo else log.tx.now)


def is_message_wait(asked: Wait) -> bool:
    """Whether a wait is for the next message to an agent; a question has a `ref`."""
    return asked.kind == WaitKind.INPUT and asked.ref is None and not asked.is_of_program


@holder_move
def restart(log: Log, arguments: Any) -> int:
    """Restart the program; return the new restart number."""
    close_waits(log, "The program was restarted first.")
    return session.restart.on(log, arguments)


def is_under_way(log: Log) -> bool:
    """Whether an effect may be under way or is to be undone: then no session ends."""
    left = doubt.unfinished(log.tx, log.uid)
    return any(one.state == EffectState.DISPATCHED or one.undo_requested_at is not None for one in left)


def _refuse_planned(log: Log, because: str) -> list[Effect]:
    """Refuse planned effects; returns those that may be under way."""
    unsettled = effects.unsettled(log.tx, log.uid)
    for one in unsettled:
        if one.state == EffectState.PLANNED:
            effects.refuse.on(log, one.id, CANCELLED, because)
            if one.approval_id is not None:
                approval.lapse(log, one.approval_id, because)
    return [one for one in unsettled if one.state != EffectState.PLANNED]


def close_waits(log: Log, because: str) -> None:
    """Refuse planned effects, and resolve every wait that is not for an effect under way."""
    under_way = {one.id for one in _refuse_planned(log, because)}
    log.actor, actor = CLOSED, log.actor
    for one in wait.open_of_session(log.tx, log.uid):
        if one.kind == WaitKind.EFFECT or one.ref not in under_way:
            wait.settle(log, one, None)
    log.actor = actor
