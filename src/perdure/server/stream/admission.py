"""Whether the caller of a stream still may read it, looked at again every few seconds.

A token that was revoked, a role that was taken away, a session that moved to another queue: each ends the stream. While
the question is open, nothing of the session is sent. A store that is only slow, as on a busy machine, so delays the
stream. One that does not answer at all ends it: a thousand clients that come back at once would make it slower still.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from perdure.domain.caller import Caller
from perdure.errors import PerdureError, TooManyRequests
from perdure.server.operation import Context
from perdure.server.settings import ServerSettings
from perdure.store.move import StoreTransaction
from perdure.store.moves import session as sessions
from perdure.store.moves import sign_in

SHARED = 1.0  # seconds for which streams of the same caller on the same session share an answer
REVOKED, UNKNOWN = "access", "unavailable"


class StreamAdmission:
    """The streams of one process: how many each caller has, and whether it still may read them."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._streams: Counter[str] = Counter()
        self._answers: dict[tuple[str, str], tuple[float, asyncio.Task[bool]]] = {}

    @property
    def open(self) -> int:
        """How many streams are open."""
        return self._streams.total()

    @contextmanager
    def enter(self, caller: Caller) -> Iterator[None]:
        """Count a stream of a caller; refuses one too many."""
        if self._streams[caller.key] >= self._settings.streams_per_caller:
            raise TooManyRequests(f"You have {self._streams[caller.key]} streams open.", hint="Close some of them.")
        self._streams[caller.key] += 1
        try:
            yield
        finally:
            self._streams[caller.key] -= 1
            if not self._streams[caller.key]:
                del self._streams[caller.key]

    async def refusal(self, context: Context) -> str | None:
        """Why a stream must end; None if its caller may read on."""
        key, now = (context.caller.identity, context.uid), asyncio.get_running_loop().time()
        known = self._answers.get(key)
        if known is None or now - known[0] > SHARED:
            self._answers = {one: it for one, it in self._answers.items() if now - it[0] <= SHARED}
            known = self._answers[key] = (now, asyncio.create_task(self._ask(context)))
        try:
            return None if await asyncio.shield(known[1]) else REVOKED
        except (PerdureError, TimeoutError):
            return UNKNOWN

    async def _ask(self, context: Context) -> bool:
        own = f"os:{self._settings.own_uid}"
        async with asyncio.timeout(self._settings.store_answer):
            return await context.store.read(_still_may, context, own)


def _still_may(tx: StoreTransaction, context: Context, own: str) -> bool:
    caller = sign_in.caller_of(tx, context.caller.identity, own=own)
    return caller is not None and caller.may(context.operation.verb, sessions.get(tx, context.uid))
