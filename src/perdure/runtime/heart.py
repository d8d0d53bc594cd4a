"""The heart: one thread that keeps every lease this process holds.

It is a thread of its own, so a program or a tool that blocks the event loop keeps its lease. Each beat notes the
deadline on the boot clock *before* the request is sent: the holder always stops acting earlier than the store lets
anybody else begin. A lease that is lost is marked, and the run that held it is told. One whose run has ended while a
thread still acts for it is kept until the thread has ended too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from perdure.clock import SECOND
from perdure.domain.lease import Holder
from perdure.errors import LeaseLost, PerdureError
from perdure.runtime.act import is_acting
from perdure.store import lease, session
from perdure.store.store import Store


class Heart:
    """Beats for every holder that was given to it."""

    def __init__(self, store: Store, ttl: int) -> None:
        self._store = store
        self.ttl = ttl
        self._holders: dict[Holder, Callable[[PerdureError], None]] = {}
        self._left: set[Holder] = set()  # whose run has ended, and not what it began
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def keep(self, holder: Holder, asked_at: int, lost: Callable[[PerdureError], None]) -> None:
        """Keep a lease from now on; `lost` is called, in the heart's thread, when that failed."""
        holder.boot_deadline = asked_at + self.ttl
        with self._lock:
            self._holders[holder] = lost
            if self._thread is None:
                self._thread = threading.Thread(target=self._beat, name="perdure-heart", daemon=True)
                self._thread.start()

    def drop(self, holder: Holder) -> None:
        """Its run has ended: keep the lease no longer than an act of it is under way."""
        with self._lock:
            if is_acting(holder.uid):
                self._left.add(holder)
            else:
                self._holders.pop(holder, None)

    def beat(self, holder: Holder) -> None:
        """Renew one lease now."""
        asked_at = self._store.clock.boot()
        self._store.write_now(lease.renew(holder, self.ttl))
        holder.boot_deadline = asked_at + self.ttl

    def _beat(self) -> None:
        while not self._stop.wait(self.ttl / SECOND / 3):
            with self._lock:
                held = list(self._holders.items())
            for holder, lost in held:
                try:
                    if holder in self._left and not is_acting(holder.uid):
                        self._forget(holder)
                        self._store.write_now(session.release(holder))
                    else:
                        self.beat(holder)
                except LeaseLost as error:
                    self._forget(holder)
                    lost(error)
                except PerdureError:  # the store is away; the deadline stands, and the next beat tries again
                    continue

    def _forget(self, holder: Holder) -> None:
        with self._lock:
            self._holders.pop(holder, None)
            self._left.discard(holder)

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
