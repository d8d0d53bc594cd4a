"""An interrupt of a run: the request is noticed while an act is under way, and what can be stopped is stopped.

    request   another process, or this one, records it (`store.moves.interrupt`); the commit wakes the watcher
    notice    the watcher reads the request; it runs only while something is under way that takes longer than `DELAY`
    stop      what is under way is stopped, each act in its own way; a function in a thread cannot be stopped
    end       an agent ends its turn and waits for a message; a program is unwound and paused

Without the watcher the request is noticed too, by the next move of the holder, and so between two acts at the latest.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.errors import PerdureError
from perdure.store.moves import interrupt

if TYPE_CHECKING:
    from perdure.runtime.run.run import Run

T = TypeVar("T")
Stop = Callable[[str], None]  # stops an act; it is given the name of the requester
logger = logging.getLogger(__name__)
DELAY = 0.1  # seconds; an act that ends sooner is not watched
PAUSE = 0.05  # seconds between two reads, however often the session changes
RETRY = 1.0  # seconds until the next read, after one that failed
PATIENCE = 0.3  # seconds for a coroutine that is cancelled


class Interrupted(Exception):
    """The turn of an agent was interrupted: nothing else begins in it."""

    def __init__(self, by: str) -> None:
        super().__init__(f"{by} stopped the session.")
        self.by = by


class StoppableCoroutine:
    """An asynchronous function that an interrupt can cancel."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._task: asyncio.Task[Any] | None = None
        self.is_stopped = False

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._task = asyncio.current_task()
        return await self._function(*args, **kwargs)

    def stop(self, by: str) -> None:  # noqa: ARG002 - the record names who stopped it
        self.is_stopped = True
        if self._task is not None:
            self._task.cancel()


class Interruption:
    """The interrupt of one run, if one is requested. `ends_turn`: the program is an agent, which continues to run."""

    def __init__(self, run: Run, *, ends_turn: bool) -> None:
        self._run = run
        self._ends_turn = ends_turn
        self._by: str | None = None
        self._stops: dict[object, Stop | None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._watcher: asyncio.Task[None] | None = None

    @property
    def ends_turn(self) -> bool:
        """Whether the present turn of an agent is to end: no call of it begins any more."""
        return self._ends_turn and self._run.holder.interrupt_requested

    @property
    def pauses(self) -> bool:
        """Whether the program is to be paused."""
        return not self._ends_turn and self._run.holder.interrupt_requested

    async def requester(self) -> str:
        """Who requested the interrupt that is pending."""
        if self._by is None:
            self._by = await self._run.read(interrupt.requester, self._run.session.uid)
        return self._by

    def end(self) -> None:
        """The request was honoured; another one may come."""
        self._by = None

    async def check(self) -> None:
        """Refuse to continue a turn that was interrupted."""
        if self.ends_turn:
            raise Interrupted(await self.requester())

    @contextmanager
    def watch(self, stop: Stop | None = None) -> Iterator[None]:
        """While something is under way: notice an interrupt, and call `stop` then. Without `stop` it ends by itself."""
        key = object()
        self._stops[key] = stop
        if self._by is not None and self._run.holder.interrupt_requested:
            self._call(stop, self._by)
        elif self._timer is None and self._watcher is None:
            delay = 0.0 if self._run.holder.interrupt_requested else DELAY
            self._timer = asyncio.get_running_loop().call_later(delay, self._begin)
        try:
            yield
        finally:
            del self._stops[key]

    async def race(self, work: Coroutine[Any, Any, T]) -> T:
        """Await something that changes nothing outside. An interrupt cancels it, and raises `Interrupted`."""
        task: asyncio.Future[Any] = asyncio.ensure_future(work)
        noticed: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def stop(by: str) -> None:
            if not noticed.done():
                noticed.set_result(by)

        with self.watch(stop):
            try:
                await asyncio.wait([task, noticed], return_when=asyncio.FIRST_COMPLETED)
                if not task.done():
                    task.cancel()
                    await asyncio.wait({task}, timeout=PATIENCE)
            except asyncio.CancelledError:
                task.cancel()
                await asyncio.wait({task})
                raise
        if noticed.done() and (not task.done() or task.cancelled() or task.exception() is not None):
            task.add_done_callback(_retrieve)
            raise Interrupted(noticed.result())
        result: T = task.result()
        return result

    def _begin(self) -> None:
        self._timer = None
        if self._stops:
            self._watcher = asyncio.ensure_future(self._watch())

    async def _watch(self) -> None:
        """Read the request after every change of the session, while something is under way."""
        store, uid = self._run.store, self._run.session.uid
        try:
            while self._stops:
                seen = store.wakeups.version
                try:
                    by = await store.read(interrupt.pending, uid)
                except PerdureError as error:  # the store is away; the lease decides when the run ends
                    logger.info("Session %s: requests cannot be read just now [%s].", uid, error.code)
                    await asyncio.sleep(RETRY)
                    continue
                if by is not None:
                    self._notice(by)
                    return
                await store.wakeups.wait(seen, uid)
                await asyncio.sleep(PAUSE)
        finally:
            self._watcher = None

    def _notice(self, by: str) -> None:
        logger.info("Session %s: it is interrupted.", self._run.session.uid)
        self._by, self._run.holder.interrupt_requested = by, True
        if self._ends_turn:
            self._run.dismiss(Interrupted(by))
        else:
            self._run.unwind_to_pause()
        for stop in list(self._stops.values()):
            self._call(stop, by)

    def _call(self, stop: Stop | None, by: str) -> None:
        try:
            if stop is not None:
                stop(by)
        except Exception:
            logger.exception("Session %s: an act could not be stopped.", self._run.session.uid)

    def close(self) -> None:
        """The run is over."""
        if self._timer is not None:
            self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()


def _retrieve(task: asyncio.Future[Any]) -> None:
    with suppress(asyncio.CancelledError):
        task.exception()
