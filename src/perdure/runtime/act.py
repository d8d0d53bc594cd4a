"""The act itself: run a tool's function, and say only what is known about how it ended.

Only proof makes `failed`. An exception or a timeout is not proof: the request may have landed. A function in a thread
cannot be stopped; when it overruns, its run waits until it has ended, and what it then returns still counts.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, ClassVar

import msgspec

from perdure.clock import SECOND
from perdure.domain.effect import AttemptOutcome
from perdure.errors import ConfigError
from perdure.ids import encode
from perdure.runtime.tool import Tool
from perdure.store.effect import Outcome


class Ended(msgspec.Struct, frozen=True):
    """How a call ended: with a value, or with what it raised."""

    value: Any = None
    error: BaseException | None = None


async def call(
    function: Callable[..., Any], is_async: bool, timeout: int | None, /, *args: Any, **kwargs: Any
) -> Ended:
    """Call a function to its end, wherever that is."""
    if is_async:
        task = asyncio.ensure_future(function(*args, **kwargs))
    else:
        task = asyncio.ensure_future(_in_thread(function, args, kwargs))
    done, _ = await asyncio.wait({task}, timeout=None if timeout is None else timeout / SECOND)
    if not done and is_async:
        task.cancel()
    try:
        return Ended(value=await task)
    except BaseException as error:
        if not task.done():  # we are being cancelled, and not the call: it must still be seen to its end
            task.cancel()
            await asyncio.wait({task})
            raise
        if isinstance(error, asyncio.CancelledError):
            return Ended(error=TimeoutError(f"no answer within {(timeout or 0) / SECOND:g} s"))
        return Ended(error=error)


async def _in_thread(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A thread of its own, though not a new one: a call that never ends must not take a place from others."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(value: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def work() -> None:
        value, error = None, None
        try:
            value = context.run(function, *args, **kwargs)
        except BaseException as raised:
            error = RuntimeError("StopIteration") if isinstance(raised, StopIteration) else raised
        with suppress(RuntimeError):  # the loop is closed: nobody is left to hear it
            loop.call_soon_threadsafe(deliver, value, error)

    Actor.free().jobs.put(work)
    return await future


class Actor(threading.Thread):
    """A thread that acts, and then waits for the next act. There are as many as acts under way at once."""

    _idle: ClassVar[deque[Actor]] = deque()

    def __init__(self) -> None:
        super().__init__(name="perdure-act", daemon=True)
        self.jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.start()

    @classmethod
    def free(cls) -> Actor:
        try:
            return cls._idle.pop()
        except IndexError:
            return cls()

    def run(self) -> None:
        while True:
            self.jobs.get()()
            self._idle.append(self)


os.register_at_fork(after_in_child=Actor._idle.clear)  # threads do not survive a fork


def outcome(tool: Tool[..., Any], ended: Ended) -> Outcome:
    """What is known about an act that ended so."""
    if ended.error is None:
        try:
            return Outcome(outcome=AttemptOutcome.ACKNOWLEDGED, result=tool.shape.encode_result(ended.value))
        except ConfigError as error:
            return Outcome(outcome=AttemptOutcome.UNKNOWN, error=describe(error))
    proven = isinstance(ended.error, tool.safe_errors)
    return Outcome(outcome=AttemptOutcome.FAILED if proven else AttemptOutcome.UNKNOWN, error=describe(ended.error))


def describe(error: BaseException) -> str:
    """An error as it is recorded."""
    message = str(error).encode("utf-8", "replace").decode()[:4000]
    return encode({"type": type(error).__name__, "code": getattr(error, "code", None), "message": message})
