"""Reads of sensitive things are logged before they happen, if the policy of the store asks for it."""

from __future__ import annotations

from perdure.store.moves import access
from perdure.store.store import Store


class AccessLog:
    """The access log of a store, for what this process reads."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def note(
        self, action: str, session_uid: str | None, *, subject: str | None = None, detail: str | None = None
    ) -> bool:
        """Log a read, if the policy asks for it; returns whether it does. If it cannot be logged, nothing is read."""
        if await self._store.read(access.is_logged, action):
            await self._store.write(access.note(action, session_uid, subject=subject, detail=detail))
            return True
        return False
