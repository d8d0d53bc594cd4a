"""Limits of model providers before a request: a reservation that all workers share, and the wait until its time.

Without a limit for the provider or the model this is one read. A reservation that is due soon is waited for here; a
later one becomes a durable wait, and the run that continues after it uses that reservation.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from perdure.agent.ledger import AgentLedger
from perdure.agent.model import Model, Request, Usage, provider_of
from perdure.clock import SECOND
from perdure.domain.effect import idempotency_key
from perdure.domain.wait import WaitKind
from perdure.errors import ModelError
from perdure.ids import encode
from perdure.runtime.live_text.delta import RetryNotice
from perdure.runtime.live_text.writer import LiveTextWriter
from perdure.store.moves import rate_limit, wait
from perdure.store.moves.rate_limit import Reservation

if TYPE_CHECKING:
    from perdure.agent.inference import ModelCall

HELD = 30.0  # seconds; a longer delay becomes a durable wait, which holds no process
REF = "limit"  # of the durable wait
STALE = 60 * SECOND  # a reservation that was not used for so long is lost
BUSY = (429, 503, 529)  # HTTP
ANSWER = 1000  # tokens that are estimated for an answer


class RequestLimits:
    """The limits that the requests of one model call keep to."""

    def __init__(self, ledger: AgentLedger, model: Model, position: list[object]) -> None:
        self._run = ledger.run
        self._names = (model.name, provider_of(model.name))
        self._position = position
        self._made: Reservation | None = None

    async def wait_turn(self, request: Request, call: ModelCall, most: int, speech: LiveTextWriter | None) -> None:
        """Wait until the limits that all workers share allow one more request."""
        at, why = await self._reserve(request, call.asked)
        seconds = (at - self._run.clock.now()) / SECOND
        if seconds <= 0:
            return
        call.spend(seconds, ModelError(why, hint="`perdure limits` shows the limits.", retry=False))
        if speech is not None:
            speech.wait(RetryNotice(at, call.asked + 1, most, why))
        if seconds > HELD:
            await self._wait_durably(at, call.asked, why)
            return
        await self._run.interruption.race(asyncio.sleep(seconds))
        self._run.check()

    async def _reserve(self, request: Request, asked: int) -> tuple[int, str]:
        """When the next request may be sent, and the limit that it waits for."""
        self._made = None
        rows = await self._run.read(rate_limit.in_force, self._names)
        if not rows or await self._is_reserved(asked):
            return 0, ""
        tokens = estimate(request) if any(row.tokens for row in rows) else 0
        self._made = await self._run.write(rate_limit.reserve(self._names, tokens))
        return self._made.at, f"The limit of {' and '.join(row.name for row in rows)} is shared by all workers."

    async def _is_reserved(self, asked: int) -> bool:
        """Whether an earlier run waited for this request, and its time has just come."""
        due = await self._run.read(wait.newest_due, self._run.session.uid, self._id(asked))
        return due is not None and 0 <= self._run.clock.now() - due < STALE

    def _id(self, asked: int) -> str:
        key = idempotency_key(self._run.session.uid, self._position, REF, {}, asked)
        return f"{REF}-{key[:16]}-"

    async def _wait_durably(self, at: int, asked: int, why: str) -> None:
        """Wait while the session holds no process."""
        id, detail = f"{self._id(asked)}{at}", {"why": why, "for": self._position[0]}
        await self._run.write(wait.open_(self._run.holder, id, WaitKind.TIMER, ref=REF, detail=detail, due_at=at))
        await self._run.wait_for(id)

    async def correct(self, usage: Usage) -> None:
        """Count the tokens that the request has used."""
        used = usage.tokens_in + usage.tokens_out
        if self._made is not None and self._made.tokens and used:
            await self._run.write(rate_limit.correct(self._made, used))

    async def heed(self, error: ModelError) -> None:
        """Let all workers wait, if the provider has reached a limit or is overloaded, and asked for a delay."""
        if error.retry_after and error.details.get("status") in BUSY:
            until = self._run.clock.now() + round(min(error.retry_after, 3600.0) * SECOND)
            await self._run.write(rate_limit.block(self._names, until))


def estimate(request: Request) -> int:
    """The tokens of a request and its answer: four characters are about one token."""
    size = len(request.instructions) + len(encode(request.tools))
    for turn in request.turns:
        size += len(turn.text) + sum(len(encode(call.arguments)) for call in turn.calls)
        size += sum(len(file.data) for file in turn.files if file.media_type.startswith("text/"))
    return size // 4 + min(ANSWER, request.max_tokens)
