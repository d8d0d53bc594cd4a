"""What a running tool last reported with `call.heartbeat(...)`, for the status line."""

from __future__ import annotations

from perdure.clock import SECOND
from perdure.errors import PerdureError
from perdure.store.moves.attempt import attempts_of
from perdure.store.store import Store

INTERVAL = 3 * SECOND  # between two reads


class ProgressReader:
    """The progress of the effects of one session; a store that is away has none."""

    def __init__(self, store: Store, uid: str) -> None:
        self._store = store
        self._uid = uid
        self._effect = ""
        self._text = ""
        self._read_at = 0

    def __call__(self, effect: str) -> str:
        """The progress of a running effect; empty in its first seconds, and if it has reported nothing."""
        now = self._store.clock.boot()
        if effect != self._effect:
            self._effect, self._text, self._read_at = effect, "", now
        elif now - self._read_at >= INTERVAL:
            self._text, self._read_at = self._read(), now
        return self._text

    def _read(self) -> str:
        try:
            attempts = self._store.read_now(attempts_of, self._uid, self._effect)
        except PerdureError:
            return ""
        return (attempts[-1].progress or "") if attempts else ""
