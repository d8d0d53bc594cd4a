"""Model calls: a `pure` effect whose answer is added to the transcript in the commit that records the effect.

Nothing is written before the request, so no sync delays the first token. If a model cannot answer now, it is asked
again after the delay that it requests; a long delay is a durable wait, and later runs count it. If it cannot answer at
all, or delays for too long, the failure is recorded and shown to the person, and the session keeps everything else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from perdure.agent.history.transcript import Line, line_of
from perdure.agent.ledger import AgentLedger
from perdure.agent.model import Model, OnText, PartialReply, Reply, Request, ToolCall, Usage
from perdure.agent.models.request_limits import HELD, REF, RequestLimits
from perdure.clock import SECOND
from perdure.domain.effect import AttemptOutcome, Replay, idempotency_key, intent_digest
from perdure.domain.event import Event
from perdure.domain.wait import WaitKind
from perdure.errors import ModelError, PerdureError
from perdure.ids import decode, encode
from perdure.runtime.description import describe
from perdure.runtime.live_text import LiveTextWriter, RetryNotice
from perdure.runtime.run.interruption import Interrupted
from perdure.store.moves import effect_input as intents
from perdure.store.moves import message, wait
from perdure.store.moves.interrupt import INTERRUPTED

logger = logging.getLogger(__name__)
ATTEMPTS = 6
LONGEST = 3600.0  # the longest delay that a server can ask for
TIMEOUT = 600.0
MAX_TEXT = 400_000  # characters
MAX_ARGUMENTS = 1_000_000
MAX_CALLS = 1_000
MOST = 2**53  # tokens, or millionths of a dollar
NAME = "model"
CUT = "cut"  # why an interrupted answer stopped


class ModelCall:
    """One call of the model: its position, the number of attempts, and the time spent waiting between them.

    `asked` and `waited` continue from earlier runs: a model that keeps asking for a delay gets `ATTEMPTS` attempts in
    all, and none after `until`, the microseconds of waiting that the agent has left.
    """

    def __init__(self, position: list[Any], asked: int = 0, waited: int = 0, until: int | None = None) -> None:
        self.position = position
        self.asked = asked
        self.waited = waited
        self.until = until

    def delay(self, error: ModelError) -> float:
        """The seconds until the next attempt; raises `ModelError` when there is none."""
        wanted = error.retry_after if error.retry_after is not None else 0.25 * 2**self.asked
        seconds = min(wanted, LONGEST)
        if self.asked >= ATTEMPTS:
            why = f"It was asked {self.asked} times."
            raise ModelError(f"{error.message} {why}", hint=error.hint, **error.details) from error
        self.spend(seconds, error)
        return seconds

    def spend(self, seconds: float, error: ModelError) -> None:
        """Count time that is spent waiting; raises `ModelError` when the agent may not wait for so long."""
        if self.until is not None and self.waited + seconds * SECOND > self.until:
            left = max(self.until, 0) // SECOND
            why = f"It asks for a delay of {seconds:g} s, and the agent may wait {left:,} s in all."
            raise ModelError(f"{error.message} {why}", hint=error.hint, **error.details) from error
        self.waited += round(seconds * SECOND)


class ReplyCut(Exception):
    """The session was interrupted while the model answered. `received` is None if it waited for the next attempt."""

    def __init__(self, received: PartialReply | None = None) -> None:
        super().__init__("The reply was cut.")
        self.text = "" if received is None else received.text
        self.usage = Usage() if received is None else received.usage


async def ask(
    ledger: AgentLedger, model: Model, request: Request, call: ModelCall, speech: LiveTextWriter | None = None
) -> Reply:
    """Call the model until it answers. Raises `ModelError` when another attempt cannot help, `ReplyCut` when the
    session is interrupted."""
    interruption, limits = ledger.run.interruption, RequestLimits(ledger, model, call.position)
    while True:
        received = PartialReply(publisher(speech))
        try:
            await interruption.check()
            await limits.wait_turn(request, call, ATTEMPTS, speech)
            call.asked += 1
            reply = await _request(ledger, model, request, received)
            await limits.correct(reply.usage)
            return reply
        except Interrupted:
            raise ReplyCut(received) from None
        except ModelError as raised:
            error = raised
        await limits.heed(error)
        if not error.retry:
            raise error
        delay = call.delay(error)
        why, uid = error.message, ledger.run.session.uid
        logger.info("Session %s: a model call failed: %s The next is in %g s.", uid, why, delay)
        if speech is not None:
            due = ledger.run.clock.now() + round(delay * SECOND)
            speech.wait(RetryNotice(due, call.asked + 1, ATTEMPTS, why, error.retry_after is not None))
        try:
            await _pause(ledger, delay, call)
        except Interrupted:
            raise ReplyCut from None


async def _request(ledger: AgentLedger, model: Model, request: Request, received: PartialReply) -> Reply:
    """Send one request. Every failure is a `ModelError`."""
    try:
        async with asyncio.timeout(TIMEOUT):
            return clean(await ledger.run.interruption.race(model.reply(request, received)))
    except (Interrupted, ModelError):
        raise
    except asyncio.CancelledError:
        this = asyncio.current_task()
        if this is not None and this.cancelling():
            raise
        raise ModelError(f"{model.name} cancelled its own request.", retry=False) from None
    except TimeoutError:
        raise ModelError(f"{model.name} did not answer within {TIMEOUT:g} s.") from None
    except Exception as raised:  # a user's own model: its exceptions prove nothing
        raise ModelError(f"{model.name} failed: {type(raised).__name__}: {raised}", retry=False) from None


def publisher(speech: LiveTextWriter | None) -> OnText:
    """A function that publishes each piece of the answer as live text, in the form in which it would be stored."""

    def on_text(text: str) -> None:
        if speech is not None and text:
            with suppress(Exception):  # a user's own model may pass something that is not text
                speech.say(_text(text))

    return on_text


async def _pause(ledger: AgentLedger, seconds: float, call: ModelCall) -> None:
    run, position = ledger.run, call.position
    if seconds <= HELD:
        await run.interruption.race(asyncio.sleep(seconds))
        run.check()
        return
    due = run.clock.now() + round(seconds * SECOND)
    id = f"retry-{idempotency_key(run.session.uid, position, NAME, {}, call.asked)[:16]}-{due}"
    next_attempt = {"attempt": call.asked + 1, "most": ATTEMPTS}
    detail = {"why": f"The model asks for a delay of {seconds:g} s.", "for": position[0]} | next_attempt
    await run.write(wait.open_(run.holder, id, WaitKind.TIMER, ref=NAME, detail=detail, due_at=due))
    await run.wait_for(id)


def waited_for(events: Iterable[Event], what: str) -> tuple[int, int]:
    """The attempts that earlier runs made at this call since the last line, and how long they waited after them."""
    asked, waited = 0, 0
    for one in events:
        if one.kind == "session.described" and "model" in (one.body or {}).get("rows", {}).get("session", {}):
            asked, waited = 0, 0  # another model is asked from here on
        for row in ((one.body or {}).get("rows", {}).get("wait") or ()) if one.kind == "wait.opened" else ():
            refs = (NAME, REF) if row["kind"] == WaitKind.TIMER and (row["detail"] or {}).get("for") == what else ()
            if row["ref"] in refs:  # a wait for a limit is no attempt
                asked, waited = asked + (row["ref"] == NAME), waited + row["due_at"] - row["since"]
    return asked, waited


async def record(ledger: AgentLedger, model: Model, reply: Reply, call: ModelCall, body: dict[str, Any]) -> Line:
    """Record the effect and its answer in one commit; returns the line of the transcript."""
    spent = message.ModelUsage(reply.usage.tokens_in, reply.usage.tokens_out, reply.usage.cost_micros)
    result = {"stop": reply.stop, "calls": len(reply.calls), "letters": len(reply.text), "asked": call.asked}
    reference = reply.model or model.name
    known = intents.AttemptResult(outcome=AttemptOutcome.ACKNOWLEDGED, result=encode(result), reference=reference)
    made = await _write(ledger, model, known, call.position, body, spent)
    assert made is not None
    return line_of(ledger.run.session.uid, *made, body)


async def record_failure(
    ledger: AgentLedger, model: Model, error: ModelError, call: ModelCall, body: dict[str, Any]
) -> Line:
    """Record that the model could not answer, together with the line that reports it, in one commit."""
    described = encode(decode(describe(error)) | {"asked": call.asked})
    known = intents.AttemptResult(outcome=AttemptOutcome.FAILED, error=described)
    made = await _write(ledger, model, known, call.position, body, message.ModelUsage())
    assert made is not None
    return line_of(ledger.run.session.uid, *made, body)


def cut_reply(
    ledger: AgentLedger, model: Model, cut: ReplyCut, call: ModelCall, more: dict[str, Any]
) -> message.CutReply:
    """What was received of an answer when the session was interrupted. Its calls are dropped; its usage is as known.

    If nothing was received there is no line, and the effect has failed.
    """
    if not cut.text:
        known = intents.AttemptResult(
            outcome=AttemptOutcome.FAILED,
            error=encode({"code": INTERRUPTED, "message": "It was stopped before it answered.", "asked": call.asked}),
        )
        return message.CutReply(*_intent(ledger, model, call.position), known, None, message.ModelUsage())
    reply = clean(Reply(cut.text, usage=cut.usage, model=model.name))
    result = {"stop": CUT, "calls": 0, "letters": len(reply.text), "asked": call.asked}
    known = intents.AttemptResult(outcome=AttemptOutcome.ACKNOWLEDGED, result=encode(result), reference=model.name)
    spent = message.ModelUsage(reply.usage.tokens_in, reply.usage.tokens_out, reply.usage.cost_micros)
    body = body_of(reply) | {"stop": CUT} | more
    return message.CutReply(*_intent(ledger, model, call.position), known, body, spent)


async def _write(
    ledger: AgentLedger, model: Model, known: intents.AttemptResult, position: list[Any], body: dict[str, Any] | None,
    spent: message.ModelUsage,
) -> tuple[int, int] | None:  # fmt: skip
    intent, dispatch = _intent(ledger, model, position)
    return await ledger.run.write(message.record_reply(ledger.run.holder, intent, dispatch, known, body, spent))


def _intent(ledger: AgentLedger, model: Model, position: list[Any]) -> tuple[intents.NewEffect, intents.Dispatch]:
    """The effect of a model call, and its attempt."""
    arguments, worker = {"model": model.name}, ledger.run.runtime.worker
    key = idempotency_key(ledger.run.session.uid, position, NAME, arguments, 0)
    intent = intents.NewEffect(
        id="e-" + key[:16], position=encode(position), generation=0, tool=NAME, replay=Replay.PURE, targets="[]",
        intent=encode(arguments), intent_digest=intent_digest(NAME, arguments, []), idempotency_key=key,
    )  # fmt: skip
    return intent, intents.Dispatch(worker=worker.id, process=worker.process)


def body_of(reply: Reply) -> dict[str, Any]:
    """A reply as a line of the transcript."""
    line: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.calls:
        line["calls"] = [{"id": one.id, "name": one.name, "arguments": one.arguments} for one in reply.calls]
    usage = {"tokens_in": reply.usage.tokens_in, "tokens_out": reply.usage.tokens_out}
    line |= {"model": reply.model, "stop": reply.stop, "usage": usage | {"cost_micros": reply.usage.cost_micros}}
    return line | ({"extra": reply.extra} if reply.extra is not None else {})


def clean(reply: Reply) -> Reply:
    """The reply as it can be stored: bounded, and valid text."""
    calls = tuple(
        ToolCall(_text(one.id)[:200], _text(one.name)[:200], _arguments(one.arguments))
        for one in reply.calls[:MAX_CALLS]
    )
    text = _text(reply.text)
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]}\n… {len(text) - MAX_TEXT:,} characters of this answer were not kept …"
    spent = reply.usage
    usage = Usage(_count(spent.tokens_in), _count(spent.tokens_out), _count(spent.cost_micros), spent.priced)
    stop = reply.stop if reply.stop in ("end", "calls", "length", "refused") else "end"
    return Reply(text, calls, usage, stop, _text(reply.model), _extra(reply.extra))


def _count(given: int) -> int:
    return min(max(given, 0), MOST)


def _extra(given: Any) -> Any:
    """The data that a provider expects back, if it can be stored."""
    try:
        return given if len(encode(given)) <= MAX_ARGUMENTS else None
    except PerdureError:
        return None


def _arguments(given: dict[str, Any] | str) -> dict[str, Any] | str:
    text = _text(given) if isinstance(given, str) else None
    if text is None:
        try:
            text = encode(given)
        except Exception:  # a lone surrogate, or not JSON: shown to the model as it came
            text = _text(repr(given))
            given = text
    if len(text) > MAX_ARGUMENTS:
        return text[:1000] + f"… {len(text) - 1000:,} characters of these arguments were not kept …"
    return given if isinstance(given, dict) else text


def _text(given: str) -> str:
    return given.encode("utf-8", "replace").decode().replace("\0", "\N{SYMBOL FOR NULL}")
