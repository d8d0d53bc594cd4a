"""Moves and reads of steps."""

from __future__ import annotations

import msgspec

from perdure.domain.lease import Holder
from perdure.domain.step import Step
from perdure.errors import ConfigError, Conflict
from perdure.ids import check_text, digest
from perdure.store.hot_move import GuardedWrite, guarded_write
from perdure.store.invocation import described
from perdure.store.move import Log, Move, StoreTransaction, hold

HOT_PARTS = ("session.advance_run", "event.insert", "step.insert_held")


class NewStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step to record: its identity and its outcome, as JSON text, artifact digest, or error as JSON text."""

    restart_number: int
    scope: str
    name: str
    argument_digest: str
    occurrence: int
    result: str | None = None
    artifact: str | None = None
    error: str | None = None


@described
def record(holder: Holder, step: NewStep) -> Move[int]:
    """Record a step's result, once; return the number of its event."""
    shown = _log_body(step)

    def run(tx: StoreTransaction) -> int:
        log = hold(tx, holder)
        number = _write(log, step, shown)
        log.close()
        return number

    def hot(tx: StoreTransaction) -> GuardedWrite[int]:
        values, head = msgspec.structs.asdict(step), holder.head
        answer = head[0] + 1
        return guarded_write(tx, holder, head, "step.record_held", HOT_PARTS, "step.recorded", shown, answer, values)

    return Move("step.record", "holder", run, hot)


def record_result(log: Log, step: NewStep, result: str) -> str:
    """Record a step in the transaction of the changes that it made; returns its result, which is JSON text."""
    made = msgspec.structs.replace(step, result=result)
    _write(log, made, _log_body(made))
    return result


def _log_body(step: NewStep) -> dict[str, object]:
    """The body of the event of a step; refuses a step that cannot be recorded."""
    if (step.result is not None) + (step.artifact is not None) + (step.error is not None) != 1:
        raise ConfigError("A step has exactly one of a result, an artifact and an error.")
    check_text("The step", step.scope + step.name + (step.artifact or ""))
    return {
        "step": {"scope": step.scope, "name": step.name, "occurrence": step.occurrence},
        "outcome": digest(step.result or step.artifact or step.error or ""),
    }


def _write(log: Log, step: NewStep, shown: dict[str, object]) -> int:
    if step.restart_number != log.head.restart_number:
        raise Conflict(f"Session {log.head.id} was restarted; step {step.name} belongs to an earlier run.")
    number = log.append("step.recorded", shown)
    if not log.tx.run("step.insert", uid=log.uid, **msgspec.structs.asdict(step), number=number, now=log.tx.now):
        raise Conflict(f"Step {step.name} of session {log.head.id} has been recorded already.")
    return number


def of_session(tx: StoreTransaction, uid: str, restart_number: int, *, through: int = 2**62) -> list[Step]:
    """Everything recorded since the last restart, up to an event, in one bulk read."""
    rows = tx.all("step.of_session", uid=uid, restart_number=restart_number, through=through, limit=10_000_000)
    return [Step(*row) for row in rows]


def failed(tx: StoreTransaction, uid: str) -> list[Step]:
    """The steps of a session that were recorded with an error."""
    return [Step(*row) for row in tx.all("step.failed", uid=uid, limit=10_000_000)]


def newest(tx: StoreTransaction, uid: str) -> int:
    """The number of the event that recorded the newest step; 0 if there is none."""
    row = tx.one("step.newest", uid=uid)
    return 0 if row is None else int(row[0])
