"""Changes to the record that a program makes together with a step: decisions, tasks, facts, artifacts.

A change is data, so that it can be made in the transaction of the step by whichever process has the store. `KINDS` are
all there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from perdure.domain.artifact import Retention
from perdure.errors import ConfigError
from perdure.ids import encode
from perdure.store.move import Log, holder_move
from perdure.store.moves import artifact, decision, fact, step, task
from perdure.store.moves.step import NewStep


class RecordChange(msgspec.Struct, frozen=True):
    """One change, with the arguments that it is made with."""

    kind: str
    arguments: Mapping[str, Any]


@holder_move
def record_with(log: Log, new: NewStep, changes: Sequence[RecordChange]) -> str:
    """Make changes and record them as a step, in one transaction; returns the result of the last, as JSON text."""
    result: Any = None
    for one in changes:
        if (make := KINDS.get(one.kind)) is None:
            raise ConfigError(f"There is no change of the record {one.kind!r:.60}.")
        result = make(log, **one.arguments)
    return step.record_result(log, new, encode(result))


def _decide(log: Log, id: str, text: str, because: str, then: str | None) -> None:
    decision.decide.on(log, id, text, because=because, then=then)


def _settle(log: Log, id: str, outcome: str) -> None:
    decision.settle.on(log, id, outcome)


def _add_task(log: Log, id: str, title: str, parent_id: str | None, priority: int) -> None:
    task.add.on(log, id, title, parent_id=parent_id, priority=priority)


def _change_task(log: Log, id: str, **changes: Any) -> None:
    task.change.on(log, id, **changes)


def _remember(
    log: Log, scope: str, key: str, value: Any, expected: int | None, verify: str | None, stale_after: int | None
) -> int:
    kept = fact.remember.on(log, scope, key, value, expected=expected, verify=verify, stale_after=stale_after)
    return kept.version


def _claim(log: Log, digest: str, kind: str, size: int) -> str:
    where = f"{digest[:2]}/{digest}"
    artifact.index.on(log, digest, kind=kind, size=size, location=where, retention=Retention.SESSION)
    return digest


KINDS: dict[str, Callable[..., Any]] = {
    "decision.decide": _decide,
    "decision.settle": _settle,
    "task.add": _add_task,
    "task.change": _change_task,
    "fact.remember": _remember,
    "artifact.claim": _claim,
}
