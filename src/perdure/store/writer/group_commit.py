"""Group commit: one writer thread takes every waiting move and commits them with one sync.

    acquire the write lock    one process at a time, in turn
    begin immediate
      savepoint; move 1; release        a move that fails is rolled back alone
      savepoint; move 2; release
      ...
    commit                    the one sync that all of them wait for
    release the lock          a group that took long (a `joint` tool) first takes in tickets that arrived meanwhile
    answer                    only now callers learn of success
    rest                      checkpoint, if the WAL has grown long; no caller waits for it

What a crash between two lines means: before `commit` returns, nothing of the group is there; after it all of it is, and
a caller without an answer finds it by its move id.

Two things are not obvious. A full disk or an interrupt inside one savepoint makes SQLite roll back the *whole*
transaction, so after every failure we check whether it is still open; if not, the group runs again one by one. And a
COMMIT that fails may still hold after a crash: only a later synced write decides it, so we make one (the barrier), and
then search for the moves' ids. A plain read could be wrong.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from perdure import faults
from perdure.errors import CommitUnknown, StoreUnavailable
from perdure.store.hot_move import write
from perdure.store.move import StoreTransaction
from perdure.store.writer.queue import TicketQueue
from perdure.store.writer.ticket import Ticket, answer

logger = logging.getLogger(__name__)
Ran = list[tuple[Ticket[Any], StoreTransaction]]
More = Callable[[float], list[Ticket[Any]]]
LONG = 1.0  # seconds after which a group takes in the tickets that arrived while it ran
TRIES = 2  # of a move alone, after its group failed and is known not to be committed


class Engine(Protocol):
    """One connection that writes. Errors of the driver arrive as ours."""

    def begin(self) -> None: ...
    def savepoint(self) -> None: ...
    def release(self) -> None: ...
    def rollback_to_savepoint(self) -> None: ...
    def commit(self) -> None: ...
    def abandon(self) -> None: ...
    def in_transaction(self) -> bool: ...
    def transaction(self, move_id: str) -> StoreTransaction: ...
    def translate(self, error: BaseException) -> BaseException: ...
    def is_ambiguous(self, error: BaseException) -> bool: ...
    def barrier(self) -> None: ...
    def pause(self, seconds: float) -> None: ...
    def rest(self) -> None: ...
    def close(self) -> None: ...


class GroupCommit:
    """The writer thread and its queue."""

    def __init__(
        self,
        connect: Callable[[], Engine],
        *,
        largest: int = 512,
        patience: int = 60,
        on_commit: Callable[[set[str]], None],
        witness: Callable[[str, int, str], None] | None = None,
    ) -> None:
        self._connect = connect
        self._largest = largest
        self._patience = patience
        self._on_commit = on_commit
        self._witness = witness
        self._queue = TicketQueue()
        self._failed_to_open: BaseException | None = None
        self._opened = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="perdure-writer", daemon=True)
        self._thread.start()
        self._opened.wait()
        if self._failed_to_open is not None:
            raise self._failed_to_open

    def submit(self, ticket: Ticket[Any]) -> None:
        self._queue.put(ticket)

    def close(self) -> None:
        """Finish what is queued, then stop."""
        self._queue.close([self._thread])

    def _serve(self) -> None:
        try:
            engine = self._connect()
        except BaseException as error:
            self._failed_to_open = error
            return
        finally:
            self._opened.set()
        while batch := self._take():
            self._write(engine, batch)
            answer(batch)
            faults.point("answer.after")
            engine.rest()
        engine.close()

    def _take(self) -> list[Ticket[Any]]:
        """All waiting tickets, or the next one; an empty list when no more will come."""
        batch: list[Ticket[Any]] = []
        while len(batch) < self._largest and not (batch and self._queue.is_empty()):
            if (ticket := self._queue.get()) is None:
                break
            batch.append(ticket)
        return batch

    def _write(self, engine: Engine, batch: list[Ticket[Any]]) -> None:
        if not self._attempt(engine, batch, more=self._waiting):
            for ticket in batch:
                for _ in range(TRIES):
                    if self._attempt(engine, [ticket]):
                        break

    def _waiting(self, begun: float) -> list[Ticket[Any]]:
        """Tickets that arrived while a group ran for long: renewals must not wait until leases have expired."""
        if time.monotonic() - begun < LONG or self._largest == 1 or self._queue.is_empty():
            return []
        return self._take()

    def _attempt(self, engine: Engine, batch: list[Ticket[Any]], more: More = lambda _: []) -> bool:
        """Write a group and set the result of every ticket. False: nothing was committed; try each one alone."""
        try:
            return self._write_group(engine, batch, more)
        except BaseException as error:
            failure = engine.translate(error)
            _let_go(engine)  # the writer must survive any error: callers wait for it
            for ticket in batch:
                ticket.error = ticket.error or failure
            return True

    def _write_group(self, engine: Engine, batch: list[Ticket[Any]], more: More) -> bool:
        for ticket in batch:
            ticket.error = None
        engine.begin()
        begun, ran = time.monotonic(), Ran()
        for ticket in batch:
            if not self._run(engine, ticket, ran, alone=len(batch) == 1):
                engine.abandon()
                return len(batch) == 1
        late = more(begun) if ran else []
        batch += late
        for ticket in late:
            if not self._run(engine, ticket, ran, alone=False):
                engine.abandon()
                return False
        return self._commit(engine, ran)

    def _run(self, engine: Engine, ticket: Ticket[Any], ran: Ran, *, alone: bool) -> bool:
        """Run one move in its savepoint. False: its failure rolled back the whole transaction.

        A move that is alone needs no savepoint: if it fails nothing has run, and all is rolled back.
        """
        tx = engine.transaction(ticket.move.id)
        tx.identity = ticket.move.identity or tx.identity
        if not alone:
            engine.savepoint()
        try:
            faults.point("move.before")
            ticket.result = write(tx, ticket.move)
            faults.point("move.after")
            if not engine.in_transaction():
                raise StoreUnavailable("A statement of this move ended its transaction; nothing of it was written.")
        except BaseException as error:
            ticket.error = engine.translate(error)
            if not engine.in_transaction():
                return False
            if not alone:
                engine.rollback_to_savepoint()
            return True
        if not alone:
            engine.release()
        ran.append((ticket, tx))
        return True

    def _commit(self, engine: Engine, ran: Ran) -> bool:
        """Commit the group. False: it failed, nothing was committed, and it is safe to run it again."""
        if not any(tx.wrote for _, tx in ran):
            engine.abandon()
            return True
        faults.point("commit.before")
        try:
            engine.commit()
        except Exception as error:
            _let_go(engine)
            if not engine.is_ambiguous(error):
                raise
            if not self._resolve(engine, ran, error):
                for ticket, _ in ran:
                    ticket.error = engine.translate(error)  # until it has been tried again
                return False
        faults.point("commit.after")
        touched: set[str] = set()
        for _, tx in ran:
            touched |= tx.touched | tx.topics
            for callback in tx.after_commit:
                try:
                    callback()
                except Exception:  # it is committed: nothing that comes now may tell its caller otherwise
                    logger.exception("What follows a commit failed; the commit holds.")
        if self._witness is not None and (last := next((tx for _, tx in reversed(ran) if tx.appended), None)):
            try:
                self._witness(*last.appended[-1], last.move_id)
            except OSError as error:
                logger.warning("The file that witnesses commits could not be written: %s.", error.strerror)
        if touched:
            try:
                self._on_commit(touched)
            except Exception:
                logger.exception("Readers could not be told of a commit; they look again later.")
        return True

    def _resolve(self, engine: Engine, ran: Ran, failure: BaseException) -> bool:
        """Find out whether a failed commit is durable after all: a synced write first, then the search."""
        logger.warning("A commit failed (%s); looking for it in the store.", type(failure).__name__)
        for attempt in range(self._patience * 2):
            try:
                engine.barrier()
                return self._is_there(engine, ran)
            except Exception:
                _let_go(engine)
                engine.pause(min(0.01 * 2**attempt, 0.5))
        raise CommitUnknown("A commit was sent, and it cannot be determined whether the disk has it.") from failure

    def _is_there(self, engine: Engine, ran: Ran) -> bool:
        engine.begin()
        found = any(
            engine.transaction(tx.move_id).one("event.of_move", uid=uid, number=number, move_id=tx.move_id)
            for _, tx in ran
            for uid, number in tx.appended
        )
        engine.abandon()
        return found


def _let_go(engine: Engine) -> None:
    """Roll back an open transaction; callers get the first error, and not one of the rollback."""
    with suppress(Exception):
        engine.abandon()
