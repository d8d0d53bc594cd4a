"""The act itself: run a tool's function, and say only what is known about how it ended.

Only proof makes `failed`. An exception or a timeout is not proof: the request may have landed. A function in a thread
cannot be stopped; when it overruns, its run waits until it has ended, and what it then returns still counts. It does so
too when the loop of that run has ended first.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec

from perdure.clock import SECOND
from perdure.domain.effect import AttemptOutcome, Replay
from perdure.errors import ConfigError
from perdure.process import forget_in_child
from perdure.runtime.description import describe
from perdure.runtime.hands import HANDS
from perdure.runtime.tool import Call, Tool
from perdure.store.intent import Outcome

# What only this process knows, by (session, effect, attempt): acts under way in it, and outcomes that the store could
# not take when they came, with the tool's `retry`. They outlive a runtime that is closed and opened again.
ACTING: set[tuple[str, str, int]] = set()
OWED: dict[tuple[str, str, int], tuple[Outcome, int]] = {}
forget_in_child(ACTING.clear)
forget_in_child(OWED.clear)


def is_acting(uid: str) -> bool:
    """Whether an act of a session is under way in this process."""
    return any(attempt[0] == uid for attempt in list(ACTING))


class Ended(msgspec.Struct, frozen=True):
    """How a call ended: with a value, or with what it raised."""

    value: Any = None
    error: BaseException | None = None


Late = Callable[[TimeoutError], Awaitable[None]]


async def call(
    function: Callable[..., Any], is_async: bool, timeout: int | None, late: Late | None, /, *args: Any, **kwargs: Any
) -> Ended:
    """Call a function to its end, wherever that is. `late` hears of one that overruns and cannot be stopped."""
    under_way: asyncio.Future[Any]
    under_way = asyncio.ensure_future(function(*args, **kwargs)) if is_async else in_thread(function, args, kwargs)
    cancelled: Exception = RuntimeError("it was cancelled from within")
    if timeout is not None:
        await asyncio.wait({under_way}, timeout=timeout / SECOND)
        cancelled = TimeoutError(f"no answer within {timeout / SECOND:g} s")
        if is_async:
            under_way.cancel()
        elif late is not None and not under_way.done():
            await late(cancelled)
    try:
        return Ended(value=await under_way)
    except asyncio.CancelledError:
        this = asyncio.current_task()
        if this is not None and this.cancelling():  # not the function but everything here is being stopped
            raise
        return Ended(error=cancelled)
    except BaseException as error:
        return Ended(error=error)


def in_thread(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    keep: Callable[[Any, asyncio.Future[Any]], bool] | None = None,
) -> asyncio.Future[Any]:
    """Call a function in a thread that has nothing else to do.

    `keep` is given what it returned, in that thread, and may say that it tells the caller itself.
    """
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

    def work() -> Callable[[], None]:
        value, error = None, None
        try:
            value = context.run(function, *args, **kwargs)
            if keep is not None and keep(value, future):
                return lambda: None
        except BaseException as raised:
            error = RuntimeError("StopIteration") if isinstance(raised, StopIteration) else raised

        def tell() -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody is left to hear it
                loop.call_soon_threadsafe(deliver, value, error)

        return tell

    HANDS.do(work)
    return future


class InThread:
    """A tool's function for one attempt in a thread: under way until that has ended, whoever still waits for it."""

    __slots__ = ("_attempt", "_ended", "_given", "_left", "_tool")

    def __init__(self, tool: Tool[..., Any], attempt: tuple[str, str, int], given: Call) -> None:
        self._tool = tool
        self._attempt = attempt
        self._given = given
        self._ended: Ended | None = None
        self._left = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            value = self._tool.function(*args, **kwargs)
            self._ended = Ended(value=value)
            return value
        except BaseException as error:
            self._ended = Ended(error=error)
            raise
        finally:
            if self._left:
                self._owe()
            ACTING.discard(self._attempt)

    def leave(self) -> None:
        """Nobody waits for it any more: what comes of it is owed."""
        self._left = True
        if self._ended is not None:  # it ended just now, and may not have seen that we left
            self._owe()

    def _owe(self) -> None:
        if self._ended is not None and self._tool.replay is not Replay.PURE:
            known = outcome(self._tool, self._ended, self._given.given_reference)
            OWED[self._attempt] = (known, self._tool.retry)


def outcome(tool: Tool[..., Any], ended: Ended, reference: str | None = None) -> Outcome:
    """What is known about an act that ended so, with the reference that it gave."""
    if ended.error is None:
        try:
            result = tool.shape.encode_result(ended.value)
        except ConfigError as error:
            return Outcome(outcome=AttemptOutcome.UNKNOWN, error=describe(error), reference=reference)
        return Outcome(outcome=AttemptOutcome.ACKNOWLEDGED, result=result, reference=reference)
    proven = isinstance(ended.error, tool.safe_errors)
    known = AttemptOutcome.FAILED if proven else AttemptOutcome.UNKNOWN
    return Outcome(outcome=known, error=describe(ended.error), reference=reference)
