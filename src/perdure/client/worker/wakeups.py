"""Wake-ups from the service: one request that it holds until a topic changes, sent again and again.

The service names its process with each answer. If that changes, every topic may have changed meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from concurrent.futures import Future

import msgspec

from perdure.client.connection import ServiceCall
from perdure.client.worker.transport import WorkerTransport
from perdure.control.worker_protocol.messages import TopicsAnswer
from perdure.errors import PerdureError
from perdure.store.writer.wakeup import Wakeups

PAUSE = 1.0  # seconds after a request that failed


class ServiceTopics:
    """Carries topics from the service to this process; the commits of its moves are announced by the service."""

    def __init__(self, transport: WorkerTransport) -> None:
        self._transport = transport
        self._service, self._version = "", -1
        self._polling: Future[None] | None = None

    def listen(self, wakeups: Wakeups, topics: Collection[str]) -> None:
        """Deliver these topics from now on. The service reports those that it did not deliver before at once."""
        if self._polling is not None:
            self._polling.cancel()
        self._polling = self._transport.begin(self._poll(wakeups, list(topics)))

    def send(self, topics: Collection[str]) -> None:
        """Nothing: the service knows of every commit."""

    def close(self) -> None:
        if self._polling is not None:
            self._polling.cancel()

    async def _poll(self, wakeups: Wakeups, topics: list[str]) -> None:
        while not wakeups.closed.is_set():
            asked = {"topics": topics, "service": self._service, "version": self._version}
            call = ServiceCall("POST", "/v1/work/topics", {}, msgspec.json.encode(asked))
            try:
                answer = await self._transport.ask(call, 0)
            except PerdureError:
                await asyncio.sleep(PAUSE)
                continue
            found = msgspec.json.decode(answer.content, type=TopicsAnswer)
            self._service, self._version = found.service, found.version
            if found.changed:
                wakeups.bump(found.changed)
