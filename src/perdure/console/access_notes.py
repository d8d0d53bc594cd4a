"""Who looked: transcripts and approvals that a person read in the console, where the policy asks for a record of it.

An open page reads itself again and again. One reader of one thing is recorded once in each process and hour,
before it is shown; a read that cannot be recorded is refused.
"""

from __future__ import annotations

from perdure.clock import SECOND
from perdure.runtime.access.access_log import AccessLog
from perdure.store.store import Store

HOUR = 3600 * SECOND
KEPT = 10_000  # reads that are remembered


class AccessNotes:
    """The reads of this process."""

    def __init__(self, store: Store) -> None:
        self._log = AccessLog(store)
        self._clock = store.clock
        self._noted: dict[tuple[str, ...], int] = {}

    async def note(self, identity: str, action: str, session_uid: str, subject: str | None = None) -> None:
        """Record a read, unless the same one was recorded lately."""
        key, now = (identity, action, session_uid, subject or ""), self._clock.now()
        if now - self._noted.get(key, -HOUR) < HOUR:
            return
        if not await self._log.note(action, session_uid, subject=subject):
            return  # a policy that is set within the hour may ask for it
        self._noted.pop(key, None)
        self._noted[key] = now
        while len(self._noted) > KEPT:
            del self._noted[next(iter(self._noted))]
