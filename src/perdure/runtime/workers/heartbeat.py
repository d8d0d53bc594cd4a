"""The heartbeat: one thread that renews every lease this process holds.

It is a thread of its own, so a program or a tool that blocks the event loop keeps its lease. Each heartbeat notes the
deadline on the boot clock *before* the request is sent: the holder always stops acting earlier than the store lets
another holder begin. When a lease is lost, the run that held it is told.

All renewals of a heartbeat are sent together, and none of them waits for a row that a move holds at the moment, such as
a `joint` tool on PostgreSQL: that session is tried again soon, and does not delay the others. On SQLite such a tool
holds the one writer, for all processes; renewals that were sent meanwhile are committed with it, before any other
process may write (`group_commit`).

A lease whose run has ended is kept while a thread still acts for it, while a late outcome waits, and until an
unavailable store takes it back. Only `close` ends this thread: an unexpected error is logged, and the next heartbeat
tries again; a run whose lease runs out meanwhile is told.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

from perdure.clock import SECOND
from perdure.domain.lease import Holder
from perdure.errors import LeaseLost, PerdureError, StoreError
from perdure.runtime.ledger.attempt_registry import has_late_outcome, is_acting
from perdure.store.moves import lease, session
from perdure.store.store import Store
from perdure.store.writer.ticket import Ticket

logger = logging.getLogger(__name__)
Lost = Callable[[PerdureError], None]
BEATS = 3  # heartbeats in the duration of a lease
AGAIN = 20  # how often a busy session is tried again within a heartbeat


class Heartbeat:
    """Renews the lease of every holder that was given to it."""

    def __init__(self, store: Store, ttl: int) -> None:
        self._store = store
        self.ttl = ttl
        self._holders: dict[Holder, Lost] = {}
        self._left: set[Holder] = set()  # holders whose run has ended while an act or a late outcome has not
        self._given_back: dict[Holder, Ticket[None]] = {}
        self._lock = threading.Lock()
        self._one_round = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def keep(self, holder: Holder, asked_at: int, lost: Lost) -> None:
        """Keep a lease from now on; `lost` is called, in the heartbeat's thread, when that failed."""
        holder.boot_deadline = asked_at + self.ttl
        with self._lock:
            self._holders[holder] = lost
            if self._thread is None:
                self._thread = threading.Thread(target=self._beat, name="perdure-heart", daemon=True)
                self._thread.start()

    @property
    def held(self) -> list[Holder]:
        """The holders whose leases are kept."""
        with self._lock:
            return list(self._holders)

    def drop(self, holder: Holder) -> None:
        """Its run has ended: keep the lease only while an act of it is under way or a late outcome waits."""
        with self._lock:
            if is_acting(holder.uid) or has_late_outcome(holder.uid):
                self._left.add(holder)
            elif holder not in self._left:
                self._holders.pop(holder, None)

    def leave(self, holder: Holder) -> None:
        """Its run has ended and could not give the lease back: give it back as soon as that can be done."""
        with self._lock:
            if holder in self._holders:
                self._left.add(holder)

    def give_up(self, *, keeping: str | None) -> list[str]:
        """Give back every lease but that of one session, because this process cannot run them; returns their uids.

        Each is given back as soon as no act of it is under way and its outcomes are written; its run is told now, and
        begins nothing more.
        """
        with self._lock:
            given_up = {
                holder: lost
                for holder, lost in self._holders.items()
                if holder.uid != keeping and holder not in self._left
            }
            self._left.update(given_up)
        for holder, lost in given_up.items():
            holder.boot_deadline = 0
            lost(LeaseLost(f"Session {holder.uid} was given back, because another session blocked this worker."))
        return [holder.uid for holder in given_up]

    def give_back_left(self) -> None:
        """Give back now what waits to be given back, without waiting for the next heartbeat."""
        with self._lock:
            left = [(holder, lost) for holder, lost in self._holders.items() if holder in self._left]
        self._round(left)

    def renew(self, holder: Holder) -> None:
        """Renew one lease now. An unavailable store ends no act while the lease lasts."""
        asked_at = self._store.clock.boot()
        try:
            self._store.write_now(lease.renew(holder, self.ttl))
        except StoreError as error:
            if self._store.clock.boot() >= holder.boot_deadline:
                raise LeaseLost(f"The lease of session {holder.uid} ran out while the store was away.") from error
        else:
            self._renewed(holder, asked_at)

    def _renewed(self, holder: Holder, asked_at: int) -> None:
        holder.boot_deadline = max(holder.boot_deadline, asked_at + self.ttl)

    def _beat(self) -> None:
        busy: set[Holder] = set()
        tries = 0
        while not self._stop.wait(self.ttl / SECOND / BEATS / (AGAIN if busy else 1)):
            with self._lock:
                held = dict(self._holders)
            tries = tries + 1 if busy else AGAIN
            if tries >= AGAIN:
                tries, busy = 0, set(held)
            try:
                busy = self._round([(holder, held[holder]) for holder in busy if holder in held])
            except Exception:
                logger.exception("The leases of this process could not be renewed; the next heartbeat tries again.")

    def _round(self, held: Iterable[tuple[Holder, Lost]]) -> set[Holder]:
        """Renew these leases, or give back those that are no longer needed; returns those that are busy."""
        with self._one_round:
            return self._send_round(held)

    def _send_round(self, held: Iterable[tuple[Holder, Lost]]) -> set[Holder]:
        sent: list[tuple[Holder, Lost, int, Ticket[bool]]] = []
        busy: set[Holder] = set()
        for holder, lost in held:
            with self._guard(holder, lost):
                if holder in self._left and not (is_acting(holder.uid) or has_late_outcome(holder.uid)):
                    self._give_back(holder)
                else:
                    asked_at = self._store.clock.boot()
                    sent.append((holder, lost, asked_at, self._store.submit(lease.renew(holder, self.ttl, wait=False))))
        for holder, lost, asked_at, ticket in sent:
            with self._guard(holder, lost):
                if ticket.wait():
                    self._renewed(holder, asked_at)
                else:
                    busy.add(holder)
        return busy

    def _give_back(self, holder: Holder) -> None:
        """Send the release, and read its answer at a later heartbeat: another move may hold the row of the session."""
        sent = self._given_back.pop(holder, None)
        if sent is None:
            self._given_back[holder] = self._store.submit(session.release(holder))
        elif not sent.is_answered:
            self._given_back[holder] = sent
        elif isinstance(sent.error, StoreError):
            return
        else:
            self._forget(holder)

    def _guard(self, holder: Holder, lost: Lost) -> LeaseGuard:
        return LeaseGuard(self, holder, lost)

    def failed(self, holder: Holder, lost: Lost, error: Exception) -> None:
        """Handle an error of a renewal. A lost lease is forgotten, and its run is told.

        Otherwise the next heartbeat tries again, for as long as the lease lasts.
        """
        if isinstance(error, LeaseLost):
            logger.warning("Session %s: the lease of %s was lost.", holder.uid, holder.name)
            self._forget(holder)
            lost(error)
            return
        if isinstance(error, PerdureError):  # the store is away; the deadline stands
            logger.info("Session %s: the lease could not be renewed yet [%s].", holder.uid, error.code)
            return
        logger.error("The lease of session %s could not be renewed.", holder.uid, exc_info=error)
        if self._store.clock.boot() >= holder.boot_deadline:
            self._forget(holder)
            lost(LeaseLost(f"The lease of session {holder.uid} ran out, because it could not be renewed: {error!r}."))

    def _forget(self, holder: Holder) -> None:
        with self._lock:
            self._holders.pop(holder, None)
            self._left.discard(holder)
            self._given_back.pop(holder, None)

    def close(self) -> None:
        self._stop.set()
        with self._lock:  # held by the caller that starts the thread, until it has started
            thread = self._thread
        if thread is not None:
            thread.join()


class LeaseGuard:
    """Contains the errors of one lease, so that they do not reach the others."""

    def __init__(self, heart: Heartbeat, holder: Holder, lost: Lost) -> None:
        self._heart = heart
        self._holder = holder
        self._lost = lost

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        if not isinstance(error, Exception):
            return False
        try:
            self._heart.failed(self._holder, self._lost, error)
        except Exception:
            logger.exception("The run of session %s could not be told of its lease.", self._holder.uid)
        return True
