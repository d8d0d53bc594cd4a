"""Carrying out moves and reads of workers, each move once.

    known?   a move of this id and caller was committed before, and its answer was lost: the same answer again
    judge    the worker may make this move, and the policy allows what it dispatches
    move     in the same transaction
    keep     the answer, in the same transaction, until the worker has it; a move without an event is safe to repeat

The id of a move is made by the worker, and is the id of the move in the store.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from perdure.control.worker_protocol import moves, reads
from perdure.control.worker_protocol.arguments import Given, decode_arguments
from perdure.control.worker_protocol.messages import WorkAnswer, failure_of, shown_holder
from perdure.control.worker_protocol.values import encode_value
from perdure.domain.caller import Caller
from perdure.domain.lease import Holder
from perdure.errors import AccessError, ConfigError, KeyReused, PerdureError, RequestError, StoreError
from perdure.ids import check_name, digest
from perdure.runtime.runtime import Runtime
from perdure.server.worker.admission import WorkerAdmission
from perdure.server.worker.contents import has_exact_digests
from perdure.server.worker.judgement import judge_again
from perdure.server.worker.queries import check_read, shown
from perdure.server.worker.refusal import Refusal
from perdure.store.move import Move, StoreTransaction, note_requests, read_head
from perdure.store.moves import request as requests
from perdure.store.store import Store

OPERATION = "work.move"


class WorkerCalls:
    """The moves and reads of one caller."""

    def __init__(self, runtime: Runtime, caller: Caller) -> None:
        self._store: Store = runtime.store
        self._values = runtime.values
        self._caller = caller
        self._folder = None if runtime.values.directory is None else runtime.values.directory.folder

    async def move(self, name: str, id: str, given: Given, done: list[str]) -> WorkAnswer:
        """Make a move, or answer as before."""
        factory = moves.MOVES.get(name)
        if factory is None:
            raise ConfigError(f"A worker has no move {name!r:.60}.", hint="Update the worker, or the service.")
        check_name("The id of the move", id)
        args, kwargs = decode_arguments(factory, given)
        holder = next((one for one in (*args, *kwargs.values()) if isinstance(one, Holder)), None)
        try:
            move: Move[Any] = factory(*args, **kwargs)
        except PerdureError as error:
            return self._answer(error=failure_of(error))
        move.id, move.hot = id, None
        asked = digest(msgspec.json.encode([name, given]).decode())
        move.run = self._once(move, args, kwargs, holder, asked, done)
        try:
            value = await self._store.write(move)
        except Refusal as refused:
            raise refused.error from None
        except (StoreError, AccessError, RequestError):
            raise
        except PerdureError as error:
            return self._answer(error=failure_of(error))
        return self._answer(value=value, holder=None if holder is None else shown_holder(holder))

    async def read(self, name: str, given: Given) -> WorkAnswer:
        """Run a query on what the worker may see."""
        query = reads.READS.get(name)
        if query is None:
            raise ConfigError(f"A worker has no read {name!r:.60}.", hint="Update the worker, or the service.")

        def run(tx: StoreTransaction) -> Any:
            admission = WorkerAdmission(self._caller, tx, self._folder)
            check_read(admission, name, given)
            args, kwargs = decode_arguments(query, given, tx)
            return shown(admission, name, query(tx, *args, **kwargs))

        try:
            value = encode_value(await self._store.read(run))
        except Refusal as refused:
            raise refused.error from None
        except (StoreError, AccessError, ConfigError):
            raise
        except PerdureError as error:
            return self._answer(error=failure_of(error))
        return self._answer(value=value)

    def _once(
        self, move: Move[Any], args: list[Any], kwargs: dict[str, Any], holder: Holder | None, asked: str,
        done: list[str],
    ) -> Callable[[StoreTransaction], Any]:  # fmt: skip
        inner, key, caller = move.run, f"{OPERATION}:{move.id}", self._caller.key

        def run(tx: StoreTransaction) -> Any:
            admission = WorkerAdmission(self._caller, tx, self._folder)
            session = admission.check(move.name, args, kwargs)
            exact = has_exact_digests([args, list(kwargs.values())], self._values.get_whole)
            admission.need(exact, "the digest is not that of the call")
            known = requests.get(tx, caller, key)
            if known is not None:
                if known.digest != asked:
                    raise Refusal(KeyReused("This id of a move was used for another one."))
                _refresh(tx, holder)
                return known.ids["value"]
            if session is not None:
                judge_again(tx, move.name, args, session, self._values.whole)
            value = encode_value(inner(tx))
            for one in done:
                requests.drop(tx, caller, f"{OPERATION}:{one}")
            if tx.appended:
                about: dict[str, Any] = {"digest": asked, "ids": {"value": value}, "is_done": True}
                requests.insert(tx, caller, key, operation=OPERATION, **about)
            return value

        return run

    def _answer(self, **given: Any) -> WorkAnswer:
        return WorkAnswer(now=self._store.clock.now(), restore_epoch=self._store.database.restore_epoch, **given)


def _refresh(tx: StoreTransaction, holder: Holder | None) -> None:
    """What the holder would know by now, had the answer not been lost."""
    if holder is None:
        return
    head = read_head(tx, holder.uid)
    if head.lease_nonce == holder.nonce and head.lease_epoch == holder.epoch:
        holder.advance(head.cursor, head.chain)
        note_requests(holder, head)
