"""Calling a function to its end, in the event loop or in a thread, and reporting how it ended.

A function that is not asynchronous gets a thread that is free, or a new one: a function that never returns takes no
thread from others. Threads are kept for the next call, because starting one takes longer than most commits.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

import msgspec

from perdure import process
from perdure.clock import SECOND
from perdure.errors import Suspended

# What ends a step or a program without being its outcome: this process or the run is being stopped.
INTERRUPTIONS = (KeyboardInterrupt, asyncio.CancelledError, Suspended)
MAX_IDLE_THREADS = 128


class Completion(msgspec.Struct, frozen=True):
    """How a call ended: with a value, or with the error that it raised.

    `broken_off`: we stopped it, or it was cancelled. Then its error proves nothing, and work that it started may still
    be running.
    """

    value: Any = None
    error: BaseException | None = None
    broken_off: bool = False


OnOverrun = Callable[[TimeoutError], Awaitable[None]]


async def call(
    function: Callable[..., Any],
    is_async: bool,
    timeout: int | None,
    on_overrun: OnOverrun | None,
    /,
    *args: Any,
    **kwargs: Any,
) -> Completion:
    """Call a function to its end. `on_overrun` is called for one that exceeds its timeout and cannot be stopped."""
    under_way: asyncio.Future[Completion] = (
        asyncio.ensure_future(await_to_end(function, args, kwargs))
        if is_async
        else call_in_thread(function, args, kwargs)
    )
    stopped: TimeoutError | None = None
    if timeout is not None:
        await asyncio.wait({under_way}, timeout=timeout / SECOND)
        if not under_way.done():
            overrun = TimeoutError(f"no answer within {timeout / SECOND:g} s")
            if is_async:
                stopped = overrun
                under_way.cancel()
            elif on_overrun is not None:
                await on_overrun(overrun)
    try:
        ended = await under_way
    except asyncio.CancelledError:
        this = asyncio.current_task()
        if this is not None and this.cancelling():  # not the function alone: the calling task is being cancelled
            raise
        return Completion(error=stopped or RuntimeError("it was cancelled from within"), broken_off=True)
    if not is_async and ended.error is None and is_awaitable(ended.value):
        return await call(await_value, True, timeout, on_overrun, ended.value)  # a plain function around a coroutine
    if stopped is not None and ended.error is not None:
        return Completion(error=ended.error, broken_off=True)
    return ended


async def await_to_end(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Completion:
    """Await a function. An error is returned as a value: a task that raised `SystemExit` would end its event loop."""
    try:
        return Completion(value=await function(*args, **kwargs))
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return Completion(error=error)


def call_to_end(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Completion:
    """Call a function; an error is returned as a value here too."""
    try:
        return Completion(value=function(*args, **kwargs))
    except BaseException as error:
        return Completion(error=error)


async def await_value(value: Awaitable[Any]) -> Any:
    """Await what a plain function returned."""
    return await value


def is_awaitable(value: Any) -> bool:
    """Whether a plain function returned something that must be awaited."""
    try:
        return hasattr(type(value), "__await__")
    except Exception:  # the type of a user's value may run code of its own here
        return False


def call_in_thread(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    keep: Callable[[Any, asyncio.Future[Any]], bool] | None = None,
) -> asyncio.Future[Completion]:
    """Call a function in a thread that runs nothing else.

    `keep` is called in that thread with the returned value and the future. If it returns True, it completes the future
    itself.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Completion] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(ended: Completion) -> None:
        if not future.done():
            future.set_result(ended)

    def work() -> Callable[[], None]:
        ended = context.run(call_to_end, function, args, kwargs)
        try:
            if keep is not None and ended.error is None and keep(ended.value, future):
                return lambda: None
        except BaseException as error:
            ended = Completion(error=error)

        def notify() -> None:
            with suppress(RuntimeError):  # the loop is closed: no coroutine waits for it any more
                loop.call_soon_threadsafe(deliver, ended)

        return notify

    THREADS.run(work)
    return future


Notify = Callable[[], None]
Work = Callable[[], Notify]


class ThreadPool:
    """Threads that wait for work. `work` must not raise; what it returns is called when its thread is free again."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[SimpleQueue[Work]] = []

    def run(self, work: Work) -> None:
        with self._lock:
            free = self._idle.pop() if self._idle else None
        if free is not None:
            free.put(work)
        else:
            threading.Thread(target=self._serve, args=(work,), name="perdure-act", daemon=True).start()

    def _serve(self, work: Work) -> None:
        queue: SimpleQueue[Work] = SimpleQueue()
        while True:
            notify = work()
            with self._lock:
                stays = len(self._idle) < MAX_IDLE_THREADS
                if stays:
                    self._idle.append(queue)  # before the caller is notified: it may have more work at once
            notify()
            del notify, work  # the function and its result are not kept alive while the thread is idle
            if not stays:
                return
            work = queue.get()


THREADS = ThreadPool()
process.forget_in_child(THREADS.reset)  # a forked process has this memory and none of these threads
