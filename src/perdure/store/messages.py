"""MessageBus between processes that share a store: small, not stored, and possibly lost.

Unlike a wake-up, a message carries text. What must not be lost is in the store and not in a message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

LARGEST = 7_000  # bytes of one message
Handler = Callable[
    [str | None], None
]  # a message; None: from now on messages are received, also after a lost connection


class MessageBus(Protocol):
    """Sends messages by topic. Nothing here fails, waits, or takes part in a transaction."""

    can_receive: bool

    def subscribe(self, topic: str, handler: Handler) -> None:
        """Call `handler`, which never fails, with each message of a topic, in a thread of the store."""

    def unsubscribe(self, topic: str, handler: Handler) -> None: ...

    def send(self, topic: str, message: str) -> None: ...
