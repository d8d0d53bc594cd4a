"""A database of which this process has no part: moves and reads are sent to a service by name.

move    its id is made here, once. The service commits it with its answer, so a request that is sent again after a
        lost connection is found by that id, and answered as before
fence   the holder is sent with each move: nonce and epoch are compared in the transaction, as beside the database
time    `now` is the service's clock, measured with each answer; deadlines are on the boot clock of this machine,
        from before the request that took or renewed the lease was sent
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from perdure.client.connection import ServiceCall, ServiceConnection
from perdure.client.worker.transport import WorkerTransport
from perdure.client.worker.wakeups import ServiceTopics
from perdure.clock import Clock, ServerClock
from perdure.control.worker_protocol import moves, reads
from perdure.control.worker_protocol.arguments import encode_arguments
from perdure.control.worker_protocol.messages import Welcome, WorkAnswer, error_of, update_holder
from perdure.control.worker_protocol.values import decode_value
from perdure.domain.lease import Holder
from perdure.errors import ConfigError, PerdureError, StoreUnavailable
from perdure.store.invocation import Invocation
from perdure.store.move import Move
from perdure.store.store import SERVICE
from perdure.store.writer.ticket import Ticket, answer
from perdure.store.writer.wakeup import Wakeups

URGENT = 4.0  # seconds of patience for a renewal


class ServiceDatabase:
    """A service as the database of a store."""

    dialect = SERVICE
    folder: Path | None = None
    keeps_other_tables = False
    messages = None  # live text stays on this machine

    def __init__(self, connection: ServiceConnection) -> None:
        self._clock = ServerClock()
        self.clock: Clock = self._clock
        self._transport = WorkerTransport(connection)
        self._patience = connection.patience
        self._answered: list[str] = []  # ids of moves whose answers the service need not keep
        self._open = 0
        self._idle = asyncio.Event()
        try:
            self.welcome = self._transport.wait(self._greet())
        except BaseException:
            self._transport.close()
            raise
        self.restore_epoch = self.welcome.restore_epoch
        self.schema_version = self.welcome.schema_version
        self.identity = self.welcome.name
        self.wakeups = Wakeups(ServiceTopics(self._transport))

    @property
    def transport(self) -> WorkerTransport:
        return self._transport

    def submit_write(self, ticket: Ticket[Any]) -> None:
        self._submit(ticket, is_move=True)

    def submit_read(self, ticket: Ticket[Any]) -> None:
        self._submit(ticket, is_move=False)

    def limit_patience(self, seconds: float) -> None:
        self._transport.limit_patience(seconds)

    def close(self) -> None:
        """Wait for what was submitted, and end the connections."""
        self.wakeups.close()
        self._transport.wait(self._finished())
        self._transport.close()

    def _submit(self, ticket: Ticket[Any], *, is_move: bool) -> None:
        if self.wakeups.closed.is_set():
            raise StoreUnavailable("The store is closed.")
        self._transport.begin(self._serve(ticket, is_move=is_move))

    async def _serve(self, ticket: Ticket[Any], *, is_move: bool) -> None:
        self._open += 1
        try:
            ticket.result = await (self._move(ticket.move) if is_move else self._read(ticket.move))
        except BaseException as error:  # for the caller of this ticket
            stopped = isinstance(error, asyncio.CancelledError)
            ticket.error = StoreUnavailable("The store was closed.") if stopped else error
        finally:
            self._open -= 1
            answer([ticket])
            if not self._open:
                self._idle.set()

    async def _finished(self) -> None:
        while self._open:
            self._idle.clear()
            await self._idle.wait()

    async def _greet(self) -> Welcome:
        found = await self._transport.ask(ServiceCall("GET", "/v1/work", {}), self._patience)
        return msgspec.json.decode(found.content, type=Welcome)

    async def _move(self, move: Move[Any]) -> Any:
        called = move.invocation
        if called is None or moves.MOVES.get(move.name) is not called.factory:
            raise ConfigError(
                f"A worker on a service cannot make the move {move.name}.",
                hint="Run it on a worker with access to the database.",
            )
        done, self._answered = self._answered, []
        asked = {"move": move.name, "id": move.id, "arguments": encode_arguments(called), "done": done}
        try:
            found = await self._ask("/v1/work/moves", asked, URGENT if move.urgent else self._patience)
        except BaseException:
            self._answered += done
            raise
        self._answered.append(move.id)
        if found.holder is not None:
            update_holder(_holder_of(called), found.holder)
        return self._value(found)

    async def _read(self, move: Move[Any]) -> Any:
        called = move.invocation
        name = None if called is None else reads.NAMES.get(called.factory)
        if called is None or name is None:
            raise ConfigError(
                "A worker on a service cannot read this.", hint="Run it on a worker with access to the database."
            )
        asked = {"query": name, "arguments": encode_arguments(called)}
        return self._value(await self._ask("/v1/work/reads", asked, self._patience))

    async def _ask(self, path: str, asked: dict[str, Any], patience: float) -> WorkAnswer:
        sent = self.clock.boot()
        call = ServiceCall("POST", path, {}, msgspec.json.encode(asked))
        found = msgspec.json.decode((await self._transport.ask(call, patience)).content, type=WorkAnswer)
        self._clock.measured(asked=sent, server=found.now, answered=self.clock.boot())
        self.restore_epoch = max(self.restore_epoch, found.restore_epoch)
        return found

    def _value(self, found: WorkAnswer) -> Any:
        if found.error is not None:
            error: PerdureError = error_of(found.error)
            raise error
        return decode_value(found.value)


def _holder_of(called: Invocation) -> Holder:
    """The holder that a move was made by."""
    return next(one for one in (*called.args, *called.kwargs.values()) if isinstance(one, Holder))
