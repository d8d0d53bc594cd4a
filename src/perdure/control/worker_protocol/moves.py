"""The moves that a worker may ask the service for, by name. A name that is not here does not exist.

What is missing is missing on purpose: votes, verdicts, answers, the policy, exemptions, principals and tokens belong to
people. `joint` effects need the transaction of the database itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.runtime.policy import budgets, policy_wait
from perdure.store.moves import (
    approval,
    artifact,
    checkpoint,
    claim,
    doubt,
    effect,
    event,
    interrupt,
    lease,
    message,
    program_message,
    rate_limit,
    record_change,
    refusal,
    restore,
    schedule,
    session,
    session_code,
    session_end,
    session_retry,
    step,
    wait,
    worker,
    workspace,
)

HELD: dict[str, Callable[..., Any]] = {  # by the holder of a session's lease, which comes first
    "approval.request": approval.request,
    "budgets._open": budgets._open,
    "checkpoint.put": checkpoint.put,
    "doubt.fail": doubt.fail,
    "doubt.open_doubt": doubt.open_doubt,
    "doubt.record_compensation": doubt.record_compensation,
    "doubt.record_recovery": doubt.record_recovery,
    "doubt.record_undo_failure": doubt.record_undo_failure,
    "effect.dispatch": effect.dispatch,
    "effect.plan": effect.plan,
    "effect.plan_and_dispatch": effect.plan_and_dispatch,
    "effect.record": effect.record,
    "effect.refuse": effect.refuse,
    "event.append": event.append,
    "interrupt.refuse": interrupt.refuse,
    "lease.renew": lease.renew,
    "lease.wait_for": lease.wait_for,
    "message.append_lines": message.append_lines,
    "message.end_message_waits": message.end_message_waits,
    "message.end_turn": message.end_turn,
    "message.promote_messages": message.promote_messages,
    "message.record_reply": message.record_reply,
    "message.wait_for_message": message.wait_for_message,
    "policy_wait._open": policy_wait._open,
    "program_message.take": program_message.take,
    "program_message.wait_for_message": program_message.wait_for_message,
    "record_change.record_with": record_change.record_with,
    "refusal.refuse": refusal.refuse,
    "restore.presume": restore.presume,
    "session.release": session.release,
    "session_code.hand_back": session_code.hand_back,
    "session_end.finish": session_end.finish,
    "session_end.park": session_end.park,
    "session_end.park_for": session_end.park_for,
    "session_end.restart": session_end.restart,
    "session_end.stop": session_end.stop,
    "session_retry.fail": session_retry.fail,
    "step.record": step.record,
    "wait.open_": wait.open_,
    "wait.open_for_effect": wait.open_for_effect,
    "workspace.bind": workspace.bind,
}

OTHERS: dict[str, Callable[..., Any]] = {  # each with a rule of its own
    "approval.expire": approval.expire,
    "artifact.index": artifact.index,
    "claim.claim": claim.claim,
    "doubt.record_end": doubt.record_end,
    "doubt.record_overrun": doubt.record_overrun,
    "effect.settle": effect.settle,
    "interrupt.request": interrupt.request,
    "lease.acquire": lease.acquire,
    "lease.free": lease.free,
    "lease.take_over": lease.take_over,
    "rate_limit.block": rate_limit.block,
    "rate_limit.correct": rate_limit.correct,
    "rate_limit.reserve": rate_limit.reserve,
    "schedule.promote": schedule.promote,
    "session.create": session.create,
    "session_end.cancel": session_end.cancel,
    "session_end.expire_deadline": session_end.expire_deadline,
    "session_retry.retry": session_retry.retry,
    "wait.fire": wait.fire,
    "wait.resolve": wait.resolve,
    "worker.forget": worker.forget,
    "worker.heartbeat": worker.heartbeat,
    "worker.register": worker.register,
    "worker.set_draining": worker.set_draining,
}

MOVES: dict[str, Callable[..., Any]] = HELD | OTHERS
