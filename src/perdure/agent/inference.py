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

from perdure.agent.history.reply_line import body_of, clean, storable_text
from perdure.agent.history.transcript import Line, line_of
from perdure.agent.ledger import AgentLedger
from perdure.agent.model import Model, OnText, PartialReply, Reply, Request, Usage
from perdure.agent.models.request_limits import HELD, REF, RequestLimits
from perdure.agent.permissions import permit_model
from perdure.clock import SECOND
from perdure.domain.effect import AttemptOutcome, EffectReach, Replay, idempotency_key, intent_digest
from perdure.domain.event import Event
from perdure.domain.wait import WaitKind
from perdure.errors import ModelError
from perdure.ids import decode, encode
from perdure.runtime.description import describe
from perdure.runtime.ledger.policy import ALLOWED, under
from perdure.runtime.live_text.delta import RetryNotice
from perdure.runtime.live_text.writer import LiveTextWriter
from perdure.runtime.run.interruption import Interrupted
from perdure.runtime.telemetry.spans import chat_span
from perdure.secrets.redaction import KNOWN, redact
from perdure.store.moves import effect_input as intents
from perdure.store.moves import message, wait
from perdure.store.moves.interrupt import INTERRUPTED

logger = logging.getLogger(__name__)
ATTEMPTS = 6
LONGEST = 3600.0  # the longest delay that a server can ask for
TIMEOUT = 600.0
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
        self.ruling = ALLOWED  # what allows it

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
            call.ruling = await permit_model(ledger, model.name, call.position)
            call.asked += 1
            with chat_span(ledger.run.session.uid, model.name, call.asked) as span:
                reply = await _request(ledger, model, request, received)
                if speech is not None:
                    speech.flush()
                usage = reply.usage
                span.note(answered_by=reply.model or None, stop=reply.stop)
                span.note(tokens_in=usage.tokens_in, tokens_out=usage.tokens_out)
            await limits.correct(reply.usage)
            return reply
        except Interrupted:
            raise ReplyCut(received) from None
        except ModelError as raised:
            error = _without_secrets(raised)
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


def _without_secrets(error: ModelError) -> ModelError:
    """The error of a server, which may repeat what it was sent."""
    if KNOWN.pattern is not None:
        error.message = redact(error.message)
        error.args = (error.message,)
    return error


def publisher(speech: LiveTextWriter | None) -> OnText:
    """A function that publishes each piece of the answer as live text, in the form in which it would be stored."""

    def on_text(text: str) -> None:
        if speech is not None and text:
            with suppress(Exception):  # a user's own model may pass something that is not text
                speech.say(storable_text(text))

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
    return line_of(ledger.run.session.uid, *await _write(ledger, model, known, call, body, spent), body)


async def record_failure(
    ledger: AgentLedger, model: Model, error: ModelError, call: ModelCall, body: dict[str, Any]
) -> Line:
    """Record that the model could not answer, together with the line that reports it, in one commit."""
    described = encode(decode(describe(error)) | {"asked": call.asked})
    known = intents.AttemptResult(outcome=AttemptOutcome.FAILED, error=described)
    return line_of(ledger.run.session.uid, *await _write(ledger, model, known, call, body, message.ModelUsage()), body)


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
        return message.CutReply(*_intent(ledger, model, call), known, None, message.ModelUsage())
    reply = clean(Reply(cut.text, usage=cut.usage, model=model.name))
    result = {"stop": CUT, "calls": 0, "letters": len(reply.text), "asked": call.asked}
    known = intents.AttemptResult(outcome=AttemptOutcome.ACKNOWLEDGED, result=encode(result), reference=model.name)
    spent = message.ModelUsage(reply.usage.tokens_in, reply.usage.tokens_out, reply.usage.cost_micros)
    body = body_of(reply) | {"stop": CUT} | more
    return message.CutReply(*_intent(ledger, model, call), known, body, spent)


async def _write(
    ledger: AgentLedger, model: Model, known: intents.AttemptResult, call: ModelCall, body: dict[str, Any],
    spent: message.ModelUsage,
) -> tuple[int, int]:  # fmt: skip
    intent, dispatch = _intent(ledger, model, call)
    ledger.spent += spent.cost_micros
    made = await ledger.run.write(message.record_reply(ledger.run.holder, intent, dispatch, known, body, spent))
    assert made is not None
    return made


def _intent(ledger: AgentLedger, model: Model, call: ModelCall) -> tuple[intents.NewEffect, intents.Dispatch]:
    """The effect of a model call, and its attempt."""
    arguments, worker = {"model": model.name}, ledger.run.runtime.worker
    key = idempotency_key(ledger.run.session.uid, call.position, NAME, arguments, 0)
    intent = intents.NewEffect(
        id="e-" + key[:16], position=encode(call.position), generation=0, tool=NAME, replay=Replay.PURE, targets="[]",
        intent=encode(arguments), intent_digest=intent_digest(NAME, arguments, []), idempotency_key=key,
        reach=EffectReach.MODEL,
    )  # fmt: skip
    about: dict[str, Any] = {"policy_version": call.ruling.basis.version, "exemptions": call.ruling.exemptions}
    dispatch = intents.Dispatch(worker=worker.id, process=worker.process, rule=call.ruling.rule, **about)
    return under(intent, call.ruling), dispatch
