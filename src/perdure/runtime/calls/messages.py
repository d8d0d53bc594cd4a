"""Messages that a program receives: `await s.receive(Order)`.

The oldest unread message of the type is taken. Messages of other types stay unread, for a later call. If there is none,
the program waits. A wait that was resolved although no message is left for it, because a call side by side took it, is
followed by another one with the next number.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from itertools import count
from typing import Any

from perdure.domain.wait import Wait
from perdure.runtime.awaitable import UnawaitedCalls
from perdure.runtime.calls.message_type import MessageType
from perdure.runtime.calls.recorded_values import NO_ARGUMENTS
from perdure.runtime.definitions.durations import microseconds
from perdure.runtime.run.lanes import Lanes
from perdure.runtime.run.position import CallPosition, ExecutionLane
from perdure.runtime.run.run import Run
from perdure.runtime.session_records import SessionRecords
from perdure.store.moves import inbox, program_message, wait

logger = logging.getLogger(__name__)


class Messages:
    """The messages of one run of a program."""

    def __init__(self, run: Run, lanes: Lanes, calls: UnawaitedCalls, records: SessionRecords) -> None:
        self._run = run
        self._lanes = lanes
        self._calls = calls
        self._records = records

    def receive(self, type_: Any, timeout: str | float | None) -> Coroutine[Any, Any, Any]:
        kind, span = MessageType(type_), None if timeout is None else microseconds(timeout)
        lane = self._lanes.current()
        position = lane.next_position("step", ":receive", NO_ARGUMENTS)
        return self._calls.later(position, self._receive(position, lane, kind, span))

    async def _receive(self, position: CallPosition, lane: ExecutionLane, kind: MessageType, span: int | None) -> Any:
        with self._run.active():
            self._run.honour_requests()
            recorded = self._run.records.step_at(position)
            if recorded is not None:
                return kind.read(self._run.runtime.values.get(recorded.result, recorded.artifact))
            due = None if span is None else self._run.clock.now() + span
            for number in count(1):
                place = position._replace(kind=f"receive-{number}")
                waited = self._run.records.wait_at("w", place)
                due = waited.due_at if waited is not None else due  # the time counts from the first wait
                if waited is None or waited.resolved_at is None:
                    taken = await self._take_or_wait(position, place, lane, kind, due)
                    if isinstance(taken, str):
                        return kind.read(taken)
                    waited = taken
                if waited.resolved_by == wait.TIMER and waited.answer is None:
                    raise TimeoutError("No message was received in time.")
            raise AssertionError

    async def _take_or_wait(
        self, position: CallPosition, place: CallPosition, lane: ExecutionLane, kind: MessageType, due: int | None
    ) -> str | Wait:
        """Take a message, as JSON text; or wait, and return the wait when it is resolved."""
        id, holder = self._run.records.wait_id("w", place), self._run.holder
        while True:
            unread = await self._run.read(inbox.unread, self._run.session.uid, limit=wait.MANY)
            unfit: list[str] = []
            for one in unread:
                if (why := kind.why_unfit(one.body)) is None:
                    move = program_message.take(holder, self._records.new_step(position), one.id, id)
                    if (taken := await self._run.see_through(self._run.write(move))) is not None:
                        return taken
                    break  # another call took it: read again
                logger.warning(
                    "Session %s: message %s is left unread: it is not of type %s.", holder.uid, one.id, kind.name
                )
                unfit.append(f"{one.id} ({why})")
            else:
                seen = unread[-1].sequence if unread else 0
                opened = program_message.wait_for_message(holder, id, kind.detail(unfit), due, seen)
                if await self._run.write(opened) is not None:
                    return await self._run.wait_for(id, lane)
