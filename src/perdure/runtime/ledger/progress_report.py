"""The heartbeat of a long tool: it renews the lease, and records the time and the progress of the attempt.

The record is for people and for the search for stuck sessions. The tool does not wait for it, and nothing needs it:
one that is lost, because the store is away or the process dies, is replaced by the next.
"""

from __future__ import annotations

from contextlib import suppress

from perdure.clock import SECOND
from perdure.domain.lease import Holder
from perdure.errors import PerdureError
from perdure.runtime.workers.heartbeat import Heartbeat
from perdure.store.moves import attempt
from perdure.store.store import Store
from perdure.store.writer.ticket import Ticket

INTERVAL = 10 * SECOND


class ProgressReport:
    """The reports of one attempt: at most one in ten seconds is recorded, the first text at once."""

    def __init__(self, heartbeat: Heartbeat, store: Store, holder: Holder, effect_id: str, number: int) -> None:
        self._heartbeat = heartbeat
        self._store = store
        self._holder = holder
        self._effect_id = effect_id
        self._number = number
        self._recorded_at = store.clock.boot()  # the dispatch was recorded then
        self._has_text = False
        self._sent: Ticket[None] | None = None

    def __call__(self, progress: str | None) -> None:
        """Renew the lease; raises `LeaseLost`. Then record the heartbeat, if it is time."""
        self._heartbeat.renew(self._holder)
        now, is_first = self._store.clock.boot(), progress is not None and not self._has_text
        if now - self._recorded_at < INTERVAL and not is_first:
            return
        if self._sent is not None and not self._sent.is_answered:
            return
        self._recorded_at, self._has_text = now, self._has_text or progress is not None
        with suppress(PerdureError):
            move = attempt.report(self._holder.uid, self._effect_id, self._number, progress)
            self._sent = self._store.submit(move)
