"""A service: it does what is due, and sleeps until more is due or a wake-up names one of its topics.

`look` does everything that is due, and returns the time of what comes next. A lost wake-up costs a slow poll. Any
number of processes may run the same service: all that it does is a move that changes nothing the second time.

A worker alone runs all services, each in a task. It also calls `look_if_due` before it claims, so that a session whose
timer is due is ready when the worker looks for sessions; this reads nothing from the store if nothing is due.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import ClassVar, Self

from perdure.clock import SECOND
from perdure.errors import StoreError, StoreFull, StoreUnavailable
from perdure.runtime.runtime import Runtime
from perdure.store.writer.wakeup import IDLE_POLL

logger = logging.getLogger(__name__)
RETRY = 1.0  # seconds after an error of the store
Failed = Callable[[str, Exception], None]  # a session that a service could not handle, and why


def log_failure(session: str, error: Exception) -> None:
    logger.warning("Session %s: a service could not handle it (%s).", session, error)


class Service(ABC):
    """One service. `poll` is how many seconds it sleeps at most."""

    name: ClassVar[str]
    topics: ClassVar[tuple[str, ...]]
    poll: ClassVar[float] = IDLE_POLL

    def __init__(self, runtime: Runtime, failed: Failed = log_failure) -> None:
        self.runtime = runtime
        self.store = runtime.store
        self.failed = failed
        self.next_due: int | None = None  # when there is more to do, as of the last look
        self._seen = -1  # the version of the wake-ups at the last look
        self.look_at = 0  # when the next look is due, on the boot clock
        self._looking = asyncio.Lock()

    @abstractmethod
    async def look(self) -> int | None:
        """Do what is due, and return when there is more to do; None if that is not known."""

    async def look_if_due(self) -> None:
        """Look if a topic has changed or the time has come. An error leaves the look due."""
        async with self._looking:
            if not self.is_due():
                return
            seen = self.store.wakeups.version
            self.next_due = await self.look()
            self._seen, self.look_at = seen, self.store.clock.boot() + self._pause()

    def is_due(self) -> bool:
        """Whether to look now."""
        if self._seen < 0 or self.store.clock.boot() >= self.look_at:
            return True
        return any(self.store.wakeups.has_changed(self._seen, topic) for topic in self.topics)

    def _pause(self) -> int:
        """How long to sleep after a look, in microseconds."""
        longest = int(self.poll * SECOND)
        return longest if self.next_due is None else min(longest, max(0, self.next_due - self.store.clock.now()))

    async def run(self) -> None:
        """Run until cancelled. The service survives an error of the store."""
        reported = False
        while True:
            seen = self.store.wakeups.version
            try:
                await self.look_if_due()
            except StoreError as error:
                if not reported:
                    logger.warning("The service %s waits for the store [%s].", self.name, error.code)
                reported = True
                await asyncio.sleep(RETRY)
                continue
            except Exception:
                logger.exception("The service %s failed; it tries again.", self.name)
                await asyncio.sleep(RETRY)
                continue
            reported = False
            left = (self.look_at - self.store.clock.boot()) / SECOND
            await self.store.wakeups.wait_topics(seen, self.topics, max(0.0, left))


class ServiceGroup:
    """The services of a process: `async with` runs them, and ends them with the block."""

    def __init__(self, services: Sequence[Service]) -> None:
        self.services = {one.name: one for one in services}
        self._tasks: list[asyncio.Task[None]] = []

    async def look_if_due(self) -> None:
        """Do what is due in any of them. Raises if the store is unavailable; other errors are met by the tasks."""
        for service in self.services.values():
            try:
                await service.look_if_due()
            except (StoreUnavailable, StoreFull):
                raise
            except Exception:
                logger.exception("The service %s failed; it tries again.", service.name)

    def next_due(self, *names: str) -> int | None:
        """When these services have more to do, as of their last look."""
        found = [one.next_due for name, one in self.services.items() if name in names]
        return min((due for due in found if due is not None), default=None)

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.ensure_future(one.run()) for one in self.services.values()]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
