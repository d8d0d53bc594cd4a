"""What a service could not handle: reported once, and tried again after a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Hashable
from typing import Generic, TypeVar

from perdure.clock import SECOND, Clock
from perdure.errors import StoreFull, StoreUnavailable

AGAIN = 60 * SECOND
Key = TypeVar("Key", bound=Hashable)


class Retries(Generic[Key]):
    """The keys that could not be handled. One of them does not stop the others."""

    def __init__(self, clock: Clock, failed: Callable[[str, Exception], None]) -> None:
        self._clock = clock
        self._failed = failed
        self._failed_at: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self._failed_at)

    def keep(self, keys: Collection[Key]) -> None:
        """Forget all others: they are no longer there."""
        self._failed_at = {key: at for key, at in self._failed_at.items() if key in keys}

    def may_try(self, key: Key) -> bool:
        return key not in self._failed_at or self._clock.boot() - self._failed_at[key] >= AGAIN

    async def handle(self, key: Key, session: str, act: Callable[[], Awaitable[object]]) -> None:
        """Handle one. An unavailable store ends the look; any other error is reported the first time."""
        try:
            await act()
        except (StoreUnavailable, StoreFull):
            raise
        except Exception as error:
            if key not in self._failed_at:
                self._failed(session, error)
            self._failed_at[key] = self._clock.boot()
        else:
            self._failed_at.pop(key, None)
