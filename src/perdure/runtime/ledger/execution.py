"""The act itself: run a tool's function, and say only what is known about how it ended.

Only proof makes `failed`. An exception or a timeout is not proof: the request may have landed. A function in a thread
cannot be stopped; when it overruns, its run waits until it has ended, and what it then returns still counts. It does so
too when the loop of that run has ended first. A coroutine can be broken off, but what it began (a thread, a request)
may go on: it is not known to have ended while this process lives.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any
from weakref import WeakSet

import msgspec

from perdure.clock import SECOND
from perdure.domain.effect import Attempt, AttemptOutcome, Replay
from perdure.domain.worker import Liveness
from perdure.errors import ConfigError, NotDone, PerdureError, Suspended
from perdure.ids import encode
from perdure.process import forget_in_child
from perdure.runtime.definitions.tool import Call, Tool
from perdure.runtime.description import describe, short_repr, summary, type_name
from perdure.runtime.ledger.thread_pool import THREADS
from perdure.store.moves.effect_input import AttemptResult

# What only this process knows, by (session, effect, attempt): acts under way in it, coroutines that were broken off in
# it, and outcomes that the store could not take when they came, with the tool's `retry`. They outlive a runtime that is
# closed and opened again.
AttemptKey = tuple[str, str, int]
ACTING: set[AttemptKey] = set()
BROKEN_OFF: set[AttemptKey] = set()
LATE: dict[AttemptKey, tuple[AttemptResult, int]] = {}
REFUSED: set[AttemptKey] = set()  # of what is owed: what the store will not take, and why is in the log
WRITERS: WeakSet[Any] = WeakSet()  # who is told of a new debt: the payers of this process's runtimes
forget_in_child(ACTING.clear)
forget_in_child(BROKEN_OFF.clear)
forget_in_child(LATE.clear)

# What ends a step or a program without being its outcome: somebody stops this process, or the run.
INTERRUPTIONS = (KeyboardInterrupt, asyncio.CancelledError, Suspended)
UNSTORABLE = "result-unstorable"
REPR_LIMIT = 2000


def keep_late_outcome(attempt: AttemptKey, known: AttemptResult, retry: int) -> None:
    """Keep an outcome that the store could not take, and tell those who write it as soon as they can (`payer`)."""
    LATE[attempt] = (known, retry)
    for payer in list(WRITERS):
        payer.wake()


def has_late_outcome(uid: str) -> bool:
    """Whether an outcome of a session is known in this process only."""
    return any(attempt[0] == uid and attempt not in REFUSED for attempt in list(LATE))


def is_acting(uid: str) -> bool:
    """Whether an act of a session is under way in this process."""
    return any(attempt[0] == uid for attempt in list(ACTING))


def liveness_here(attempt: Attempt) -> Liveness:
    """Whether an attempt of this process may still be under way."""
    known_as = (attempt.session_uid, attempt.effect_id, attempt.number)
    if known_as in ACTING:
        return Liveness.ALIVE
    return Liveness.CANNOT_TELL if known_as in BROKEN_OFF else Liveness.DEAD


class Completion(msgspec.Struct, frozen=True):
    """How a call ended: with a value, or with what it raised.

    `broken_off`: we stopped it, or it was cancelled. Its error proves nothing then, and what it began may go on.
    """

    value: Any = None
    error: BaseException | None = None
    broken_off: bool = False


Late = Callable[[TimeoutError], Awaitable[None]]


async def call(
    function: Callable[..., Any], is_async: bool, timeout: int | None, late: Late | None, /, *args: Any, **kwargs: Any
) -> Completion:
    """Call a function to its end, wherever that is. `late` hears of one that overruns and cannot be stopped."""
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
            elif late is not None:
                await late(overrun)
    try:
        ended = await under_way
    except asyncio.CancelledError:
        this = asyncio.current_task()
        if this is not None and this.cancelling():  # not the function but everything here is being stopped
            raise
        return Completion(error=stopped or RuntimeError("it was cancelled from within"), broken_off=True)
    if not is_async and ended.error is None and is_awaitable(ended.value):
        return await call(await_value, True, timeout, late, ended.value)  # a plain function around an asynchronous one
    if stopped is not None and ended.error is not None:
        return Completion(error=ended.error, broken_off=True)
    return ended


async def await_to_end(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Completion:
    """Await a function. What it raises is a value here: a task that raised `SystemExit` would end its event loop."""
    try:
        return Completion(value=await function(*args, **kwargs))
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return Completion(error=error)


def call_to_end(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Completion:
    """Call a function; what it raises is a value here too."""
    try:
        return Completion(value=function(*args, **kwargs))
    except BaseException as error:
        return Completion(error=error)


async def await_value(value: Awaitable[Any]) -> Any:
    """What a plain function returned, when it is to be awaited."""
    return await value


def is_awaitable(value: Any) -> bool:
    """Whether a plain function returned something that must be awaited."""
    try:
        return hasattr(type(value), "__await__")
    except Exception:  # the type of somebody's value may answer with code of its own
        return False


def call_in_thread(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    keep: Callable[[Any, asyncio.Future[Any]], bool] | None = None,
) -> asyncio.Future[Completion]:
    """Call a function in a thread that has nothing else to do.

    `keep` is given what it returned, in that thread, and may say that it tells the caller itself.
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

        def tell() -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody is left to hear it
                loop.call_soon_threadsafe(deliver, ended)

        return tell

    THREADS.do(work)
    return future


class ThreadedAct:
    """A tool's function for one attempt in a thread: under way until that has ended, whoever still waits for it."""

    __slots__ = ("_attempt", "_ended", "_function", "_given", "_left", "_tool")

    def __init__(
        self, tool: Tool[..., Any], function: Callable[..., Any], attempt: tuple[str, str, int], given: Call
    ) -> None:
        self._tool = tool
        self._function = function
        self._attempt = attempt
        self._given = given
        self._ended: Completion | None = None
        self._left = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        ended = call_to_end(self._function, args, kwargs)
        if is_awaitable(ended.value):
            return ended.value  # it has only begun
        self._ended = ended
        if self._left:
            self._owe()
        ACTING.discard(self._attempt)
        if ended.error is not None:
            raise ended.error
        return ended.value

    def leave(self) -> None:
        """Nobody waits for it any more: what comes of it is owed."""
        self._left = True
        if self._ended is not None:  # it ended just now, and may not have seen that we left
            self._owe()

    def _owe(self) -> None:
        if self._ended is not None and self._tool.replay is not Replay.PURE:
            known = outcome(self._tool, self._ended, self._given.given_reference)
            keep_late_outcome(self._attempt, known, self._tool.retry)


def outcome(tool: Tool[..., Any], ended: Completion, reference: str | None = None) -> AttemptResult:
    """What is known about an act that ended so, with the reference that it gave."""
    if type(ended.value) is AttemptResult:  # it was in a process of its own, which has said it already
        return ended.value
    if ended.error is None:
        return acknowledged(tool, ended.value, reference)
    known = AttemptOutcome.FAILED if _is_proof(tool, ended) else AttemptOutcome.UNKNOWN
    over = known is AttemptOutcome.FAILED or not ended.broken_off
    return AttemptResult(outcome=known, error=describe(ended.error), reference=reference, over=over)


def acknowledged(tool: Tool[..., Any], value: Any, reference: str | None = None) -> AttemptResult:
    """It happened. A result that cannot be stored is described: what was done is known all the same."""
    try:
        result, error = tool.signature.encode_result(value), None
    except BaseException as raised:
        why = raised.message if type(raised) is ConfigError else summary(raised)
        message = f"It was done, but its result cannot be stored. {why} It returned {short_repr(value, REPR_LIMIT)}"
        result, error = "null", encode({"type": type_name(value), "code": UNSTORABLE, "message": message})
    return AttemptResult(outcome=AttemptOutcome.ACKNOWLEDGED, result=result, error=error, reference=reference)


def _is_proof(tool: Tool[..., Any], ended: Completion) -> bool:
    """Whether it says that nothing happened: only an error that the tool declared, and that is its own.

    What a coroutine raises because we stopped it is ours, and so are our errors, unless the tool declares them by name.
    """
    kind = type(ended.error)
    if ended.broken_off:
        return issubclass(kind, NotDone)
    ours = issubclass(kind, PerdureError)
    declared = [safe for safe in tool.safe_errors if not ours or issubclass(safe, PerdureError)]
    try:
        return issubclass(kind, tuple(declared))
    except Exception:  # a class may answer that question with code of its own
        return False
