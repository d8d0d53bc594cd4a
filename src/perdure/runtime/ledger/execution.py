"""The act itself: call a tool's function, and report only what is known about how it ended.

Only proof makes `failed`. An exception or a timeout is not proof: the request may have landed. A function in a thread
cannot be stopped. When it exceeds its timeout, its run waits until it has ended, and its result still counts, also when
the event loop of that run has ended first. A coroutine can be cancelled, but work that it started (a thread, a request)
may continue: it is not known to have ended while this process lives.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from perdure import faults
from perdure.domain.effect import AttemptOutcome, Replay
from perdure.errors import ConfigError, NotDone, PerdureError
from perdure.ids import encode
from perdure.runtime.definitions.tool import Call, Tool
from perdure.runtime.description import describe, short_repr, summary, type_name
from perdure.runtime.function_call import Completion, call, call_to_end, is_awaitable
from perdure.runtime.ledger.attempt_registry import ACTING, BROKEN_OFF, IN_THREADS, AttemptKey, keep_late_outcome
from perdure.runtime.ledger.isolation import IsolatedFunction
from perdure.runtime.run.interruption import StoppableCoroutine
from perdure.runtime.run.run import Run
from perdure.secrets.redaction import KNOWN, redact, redact_json
from perdure.store.moves import doubt
from perdure.store.moves.effect_input import AttemptResult
from perdure.store.moves.interrupt import INTERRUPTED

logger = logging.getLogger(__name__)
UNSTORABLE = "result-unstorable"
REPR_LIMIT = 2000


async def act(run: Run, tool: Tool[..., Any], context: Call, arguments: dict[str, Any]) -> AttemptResult:
    """Call a tool's function once, for the attempt that `context` describes."""
    attempt = (run.session.uid, context.effect_id, context.attempt)
    try:
        opened = tool.signature.unbind_for_act(arguments)
    except Exception as error:  # other arguments, or no secret any more: it is certain that it did not begin
        return AttemptResult(outcome=AttemptOutcome.FAILED, error=describe(error))
    on_overrun = None if tool.replay is Replay.PURE else partial(_note_overrun, run, attempt)
    faults.point("act.begun")
    is_async = tool.signature.is_async and tool.isolate is None
    function: Callable[..., Any] = tool.function
    if tool.isolate is not None:
        function = isolated = IsolatedFunction(tool, context, arguments, run.runtime.worker.pass_fds)
        context.on_stop(isolated.stop)
    if is_async:
        function = coroutine = StoppableCoroutine(function)
        context.on_stop(coroutine.stop)
    else:
        function = ThreadedAct(tool, function, attempt, context)
    timeout = tool.timeout if tool.isolate is None else None  # a process is stopped by its own thread
    ACTING.add(attempt)
    try:
        args, named = tool.context.give(context, opened)
        with run.interruption.watch(context.stop):
            ended = await call(function, is_async, timeout, on_overrun, *args, **named)
    except BaseException:
        if isinstance(function, ThreadedAct):
            function.leave()  # the loop ends, and the thread continues
        else:
            BROKEN_OFF.add(attempt)
            ACTING.discard(attempt)
        raise
    finally:
        IN_THREADS.pop(attempt, None)
    known = _name_stopper(outcome(tool, ended, context.given_reference), context.stopped_by)
    if not known.over and tool.replay is not Replay.PURE:
        BROKEN_OFF.add(attempt)
    ACTING.discard(attempt)
    faults.point("act.after")
    return known


def _name_stopper(known: AttemptResult, by: str | None) -> AttemptResult:
    """An unknown outcome of an act that was interrupted says who stopped it."""
    if by is None or known.outcome is not AttemptOutcome.UNKNOWN:
        return known
    error = encode({"code": INTERRUPTED, "message": f"{by} stopped it; it may be partly done."})
    return msgspec.structs.replace(known, error=error)


async def _note_overrun(run: Run, attempt: AttemptKey, overrun: TimeoutError) -> None:
    """Record that an attempt is overdue. This is only a note: its outcome is settled when it has ended."""
    uid, id, number = attempt
    logger.warning("Session %s: effect %s, attempt %s is past its time limit.", uid, id, number)
    with suppress(PerdureError):
        await run.store.write(doubt.record_overrun(uid, run.holder.name, id, number, error=describe(overrun)))


class ThreadedAct:
    """A tool's function for one attempt in a thread: under way until the thread has ended, even if no task waits."""

    __slots__ = ("_attempt", "_ended", "_function", "_given", "_left", "_tool")

    def __init__(self, tool: Tool[..., Any], function: Callable[..., Any], attempt: AttemptKey, given: Call) -> None:
        self._tool = tool
        self._function = function
        self._attempt = attempt
        self._given = given
        self._ended: Completion | None = None
        self._left = False
        IN_THREADS[attempt] = self.leave

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        ended = call_to_end(self._function, args, kwargs)
        if is_awaitable(ended.value):
            return ended.value  # a coroutine, which has not started yet
        self._ended = ended
        if self._left:
            self._keep_outcome()
        ACTING.discard(self._attempt)
        if ended.error is not None:
            raise ended.error
        return ended.value

    def leave(self) -> None:
        """No task waits for it any more: its outcome is kept as a late outcome, once."""
        if self._left:
            return
        self._left = True
        if self._ended is not None:  # it ended just now, and may not have seen `_left`
            self._keep_outcome()

    def _keep_outcome(self) -> None:
        if self._ended is not None and self._tool.replay is not Replay.PURE:
            known = outcome(self._tool, self._ended, self._given.given_reference)
            keep_late_outcome(self._attempt, known, self._tool.retry)


def outcome(tool: Tool[..., Any], ended: Completion, reference: str | None = None) -> AttemptResult:
    """The outcome of an act that ended this way, with the reference that it gave."""
    if type(ended.value) is AttemptResult:  # it ran in a process of its own, which reported the outcome
        return without_secrets(ended.value)
    if ended.error is None:
        return acknowledged(tool, ended.value, reference)
    known = AttemptOutcome.FAILED if _is_proof(tool, ended) else AttemptOutcome.UNKNOWN
    over = known is AttemptOutcome.FAILED or not ended.broken_off
    return AttemptResult(outcome=known, error=describe(ended.error), reference=reference, over=over)


def acknowledged(tool: Tool[..., Any], value: Any, reference: str | None = None) -> AttemptResult:
    """It happened. A result that cannot be stored is described: that it was done is known all the same."""
    try:
        result, error = tool.signature.encode_result(value), None
    except BaseException as raised:
        why = raised.message if type(raised) is ConfigError else summary(raised)
        message = f"It was done, but its result cannot be stored. {why} It returned {short_repr(value, REPR_LIMIT)}"
        result, error = "null", encode({"type": type_name(value), "code": UNSTORABLE, "message": message})
    return AttemptResult(outcome=AttemptOutcome.ACKNOWLEDGED, result=result, error=error, reference=reference)


def without_secrets(known: AttemptResult) -> AttemptResult:
    """An outcome that another process has found, with markers in place of the secrets that this process knows."""
    if KNOWN.pattern is None:
        return known
    result, error = (None if one is None else redact_json(one) for one in (known.result, known.error))
    reference = None if known.reference is None else redact(known.reference)
    return msgspec.structs.replace(known, result=result, error=error, reference=reference)


def check_no_secret(tool: Tool[..., Any], texts: list[str]) -> None:
    """Refuse a call whose targets or leases have a known value. What was done is undone all the same."""
    if tool.undoes is None and any(map(KNOWN.is_in, texts)):
        raise ConfigError(
            f"A target or a lease of the call of {tool.name} contains a known secret; nothing was recorded.",
            hint="Declare that parameter as `perdure.Secret`, and give its reference.",
        )


def _is_proof(tool: Tool[..., Any], ended: Completion) -> bool:
    """Whether the error proves that nothing happened: only an error that the tool declared, and raised itself.

    What a coroutine raises because we cancelled it is no proof, nor are our own errors, unless the tool declares them.
    """
    kind = type(ended.error)
    if ended.broken_off:
        return issubclass(kind, NotDone)
    ours = issubclass(kind, PerdureError)
    declared = [safe for safe in tool.safe_errors if not ours or issubclass(safe, PerdureError)]
    try:
        return issubclass(kind, tuple(declared))
    except Exception:  # a class may run code of its own here
        return False
