"""Values that would differ in every run, recorded once: the time, identifiers and random numbers.

Each is a step with a reserved name. It is read when the program first asks, and every later run and every branch that
inherits the step gets the same value. Nothing is derived from the session's uid, which others can read.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from perdure.ids import random_fraction, random_uuid
from perdure.runtime.awaitable import UnawaitedCalls
from perdure.runtime.definitions.signature import Signature, argument_digest
from perdure.runtime.run.lanes import Lanes
from perdure.runtime.run.run import Run
from perdure.runtime.session_records import SessionRecords

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class RecordedValues:
    """The time, identifiers and random numbers of one run of a program."""

    def __init__(self, run: Run, lanes: Lanes, calls: UnawaitedCalls, records: SessionRecords) -> None:
        self._run = run
        self._lanes = lanes
        self._calls = calls
        self._records = records

    def now(self) -> Coroutine[Any, Any, datetime]:
        return self._value(":now", NOW, lambda: EPOCH + timedelta(microseconds=self._run.clock.now()))

    def uuid(self) -> Coroutine[Any, Any, UUID]:
        return self._value(":uuid", IDENTIFIER, random_uuid)

    def random(self) -> Coroutine[Any, Any, float]:
        return self._value(":random", FRACTION, random_fraction)

    def _value(self, name: str, signature: Signature, read: Callable[[], Any]) -> Coroutine[Any, Any, Any]:
        position = self._lanes.current().next_position("step", name, NO_ARGUMENTS)

        async def compute() -> Any:
            return read()

        return self._calls.later(position, self._records.compute(position, signature, compute, {}))


async def _now() -> datetime: ...  # type: ignore[empty-body] # it only says what is recorded


async def _identifier() -> UUID: ...  # type: ignore[empty-body]


async def _fraction() -> float: ...  # type: ignore[empty-body]


NOW, IDENTIFIER, FRACTION = Signature(_now), Signature(_identifier), Signature(_fraction)
NO_ARGUMENTS = argument_digest({})
