"""The agent's loop. Its state is the transcript; every line of it is durable before the next thing is done.

    hear       what was sent, and what became of calls that were unknown
    act        the calls that the model made and was not told about yet: each an effect, told when it is settled
    rest       it has answered: wait for the next message
    stop       a limit is reached: wait for a person
    think      otherwise ask the model

Killed anywhere, it begins again at the top with what is on record, and does the next thing that is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

from perdure.agent import inference
from perdure.agent.call_report import bounded, of_effect
from perdure.agent.files.session_folder import begun, perform
from perdure.agent.history import catch_up, compaction, context
from perdure.agent.history.inbox import Heard, hear, mode_of
from perdure.agent.history.state_reader import FINGERPRINT, AgentRecords
from perdure.agent.history.transcript import CODEC, Line, line_of
from perdure.agent.ledger import AgentLedger, Doubted, doubts
from perdure.agent.model import Request
from perdure.agent.settings import reached, time_left
from perdure.agent.tool_calls import Calls
from perdure.domain.effect import Effect, EffectState
from perdure.domain.fact import Fact
from perdure.errors import ModelError, Suspended
from perdure.runtime.ledger.ledger import tool_of
from perdure.runtime.live_text import Speech
from perdure.runtime.run.lineage import newest, tell_branches
from perdure.store.move import Transaction
from perdure.store.moves import checkpoint, message
from perdure.store.moves import effect as effects

CHECKPOINT_EVERY = 100  # events; what a resume reads beside its window
KEEP_EVERY = 1000  # events; a fork at any of them starts from a checkpoint that is at most this far away


class Loop:
    """One run of one agent."""

    def __init__(self, ledger: AgentLedger, records: AgentRecords) -> None:
        self.run = ledger.run
        self.ledger = ledger
        self.settings = ledger.settings
        self.state = records.state
        self._checkpointed = records.checkpointed
        self._read = self.state.number  # until here every line was read from the log; since then it added
        self._added = 0  # … so many
        self._since = records.since
        self._resting = records.resting
        self._heard: Heard | None = records.heard  # what was heard and not acted upon yet
        self._looks = True  # … and whether to look for more though the model has answered
        self._orders: list[Fact] = []
        self._coming: list[Effect] = []  # effects of the line whose outcome is still to come
        self._mark = self.run.clock.now()  # until here, the time that it worked is on record
        self._calls = Calls(ledger, self.state)

    async def live(self, prompt: str, once: bool) -> str:
        """Go on from wherever the transcript ends."""
        if not self.state.lines and self.state.summary is None:
            about = {"model": self.settings.model.name, "tools": self.settings.toolbox.names}
            await self._say({"role": "user", "content": prompt} | about | await self.ledger.snapshot("start"))
        if (line := begun(self.ledger, self.state)) is not None:
            await self._say(line)
        if calls := self.state.open_calls():  # what these changed is no surprise, so they come first
            await self._act(calls)
        await self._look_around()
        while True:
            self.run.honour_requests()
            if calls := self.state.open_calls():  # what was sent is heard after the answers to these
                await self._act(calls)
                continue
            await self._hear()
            if (order := self.state.open_order()) is not None:
                await self._perform(order)
            elif (answer := self.state.answer()) is not None:
                if once:
                    await self._settle_doubts()
                    return answer
                await self._rest()
            elif (why := self.state.stopped()) is not None:
                if once:
                    await self._fail(ModelError(str(why["content"]), retry=False))
                await self._rest({"about": why["about"], "why": why["content"]})
            elif (limit := reached(self.settings.limits, self.state, self._unwritten())) is not None:
                await self._stop(ModelError(limit, retry=False), once)
            else:
                await self._compact()
                await self._think(once)
            await self._checkpoint()

    async def _look_around(self) -> None:
        """While you were away: what changed since the last line that was there, if anything did."""
        if self.state.replies:
            with self.run.active():
                found = await catch_up.look(self.ledger, self.state, self._since)
            if found is not None:
                await self._say(found)

    async def _hear(self) -> None:
        """Let messages join, and tell what became of calls that were unknown. A rest looks by itself, as it begins."""
        if self._looks or self.state.answer() is None:
            await self._listen()
        self._coming = []
        for id, planner in list(self.state.unknown.items()):
            await self._tell_settled(id, planner)
        if self._resting and self.state.answer() is None and self.state.stopped() is None:
            with self.run.active():
                await self.run.write(message.rise(self.run.holder))
            self._resting = False

    async def _listen(self) -> None:
        mode, uid = mode_of(self.state), self.run.session.uid
        heard, self._heard, self._looks = self._heard, None, False
        heard = await self.run.read(hear, uid, mode) if heard is None else heard
        self._orders = heard.orders
        if heard.unread:
            with self.run.active():
                joined = await self.run.write(message.hear(self.run.holder, mode=mode))
            for number, at, body in joined:
                self._add(line_of(uid, number, at, body))

    async def _tell_settled(self, id: str, planner: str) -> None:
        """What was unknown and no longer is: a person said so, or the outcome came. What did not happen is done now."""
        found = await self.run.read(effects.maybe, planner, id)
        if found is not None and planner != self.run.session.uid:
            now, is_open = await self.run.read(newest, found)
            if is_open:
                self._coming.append(now)
                return
            found = now
        elif found is not None and found.state == EffectState.PLANNED:
            with self.run.active(), suppress(Doubted):
                found = await self.ledger.drive(tool_of(found), found)
        if found is not None and found.settled_at is not None:
            told = of_effect(found, await self.ledger.result_of(found))
            text = f"The call of {found.tool}, whose outcome was unknown, is settled. {told.status}: {told.text}"
            await self._say({"role": "note", "about": "settled", "settled": [id], "content": bounded(text)})

    async def _settle_doubts(self) -> None:
        """Wait for what is in doubt, if anything is: a session does not end before that is settled."""
        if asked := await self.run.read(doubts, self.run.session.uid):
            self._park([one.id for one in asked])

    async def _act(self, calls: list[Any]) -> None:
        bodies, claims = await self._calls.see_through(calls)
        bodies[-1] |= self._worked()
        await self._say(*bodies, claims=claims)
        self._heard = None
        await self._checkpoint()

    async def _perform(self, order: Line) -> None:
        """What a person ordered is an effect of the session; the model hears of it."""
        told = await perform(self.ledger, order)
        content = f"The person ordered {(order.order or {}).get('tool')}: {told.status}: {told.text}"
        body = {"role": "note", "about": "performed", "of": [order.uid, order.number], "content": content}
        await self._say(body | {"status": told.status, "effect": told.effect, "planner": told.planner})

    async def _think(self, once: bool) -> None:
        """One model call, whose answer is on record when this returns."""
        request, question, model = self._request(), self._question(), self.settings.model
        try:
            with self.run.active(), Speech(self.run) as speech:
                reply = await inference.ask(self.ledger, model, request, question, speech)
                body = inference.body_of(reply) | self._worked()
                self._add(await inference.record(self.ledger, model, reply, question, body))
        except ModelError as error:
            if error.details.get("too_long") and await self._compact(refused=True):
                return
            hint = "" if error.hint == ModelError.hint else error.hint
            why = f"The model could not answer: {error.message} {hint}".rstrip()
            body = {"role": "note", "about": "model", "content": why}
            with self.run.active():
                self._add(await inference.record_failure(self.ledger, model, error, question, body))
            if once:
                await self._fail(error)

    def _question(self) -> inference.Question:
        """What is asked now; if earlier runs asked the same, that counts."""
        position = ["think", self.run.session.uid, self.state.number, self.state.replies]
        until = time_left(self.settings.limits, self.state, self._unwritten())
        if self._since.said != self.state.said(self.run.session.uid):
            return inference.Question(position, until=until)
        return inference.Question(position, self._since.asked, self._since.waited, until)

    def _request(self) -> Request:
        standing = "".join(f"\n- {one.key}: {one.value}" for one in self._orders)
        parts = [self.settings.instructions, context.TRUTH, f"Standing orders:{standing}" if standing else ""]
        return Request(
            instructions="\n\n".join(part for part in parts if part),
            turns=context.turns(self.state, self.settings.context),
            tools=self.settings.toolbox.offers,
            number=self.state.replies,
        )

    async def _compact(self, *, refused: bool = False) -> bool:
        with self.run.active():
            line = await compaction.compact(self.ledger, self.state, refused=refused)
        if line is not None:
            self._add(line)
        return line is not None

    async def _rest(self, detail: Any = None) -> None:
        """Wait for the next message, for what is in doubt, and for what the line has still to settle."""
        id, coming = f"input-{self.state.number}", self._coming
        own = [id for id, planner in self.state.unknown.items() if planner == self.run.session.uid]
        with self.run.active():
            waits = await self.run.write(message.rest(self.run.holder, id, detail, own, [one.id for one in coming]))
        self._looks, self._resting = True, bool(waits)
        if not waits:
            return
        await self._checkpoint(at_rest=True)
        settled = await self.run.read(_settled, coming) if coming else []
        for one in settled:  # whoever settled it may not have seen our wait; whoever settles another will
            await tell_branches(self.run.store, one, self.run.holder.name)
        if not settled:
            self._park(waits)

    def _park(self, waits: list[str]) -> NoReturn:
        """Leave the run until one of these is given; what was given meanwhile is seen as it is parked."""
        self.run.unwind()
        self.run.blocked_on = waits
        raise Suspended

    async def _stop(self, limit: ModelError, once: bool) -> None:
        """It cannot go on by itself: say so. Nobody is there to go on with a session that runs once."""
        if once:
            await self._fail(limit)
        await self._say({"role": "note", "about": "limit", "content": limit.message})

    async def _fail(self, error: ModelError) -> NoReturn:
        await self._settle_doubts()
        raise error

    def _unwritten(self) -> int:
        """The time that it has worked since the last line; a wait leaves the run, and so is no work."""
        return self.run.clock.now() - self._mark

    def _worked(self) -> dict[str, int]:
        worked, self._mark = self._unwritten(), self.run.clock.now()
        return {"worked": worked}

    async def _say(self, *bodies: dict[str, Any], claims: Sequence[message.Claim] = ()) -> None:
        with self.run.active():
            written = await self.run.write(message.say(self.run.holder, bodies, claims))
        for (number, at), body in zip(written, bodies, strict=True):
            self._add(line_of(self.run.session.uid, number, at, body))

    def _add(self, line: Line) -> None:
        self.state.add(line)
        self._added += 1

    async def _checkpoint(self, *, at_rest: bool = False) -> None:
        """Keep the state now and then; it costs nothing to lose. A state that lacks a line from outside is not kept."""
        fresh = self.state.number - self._checkpointed
        if fresh < (CHECKPOINT_EVERY if not at_rest else CHECKPOINT_EVERY // 2):
            return
        since = await self.run.read(message.between, self.run.session.uid, self._read + 1, self.state.number)
        if len(since) != self._added:
            return  # the next run reads it
        move = checkpoint.put(
            self.run.holder, number=self.state.number, codec=CODEC, fingerprint=FINGERPRINT,
            body=self.state.checkpoint(), keep_through=self.state.number // KEEP_EVERY * KEEP_EVERY,
        )  # fmt: skip
        with self.run.active():
            await self.run.write(move)
        self._checkpointed = self._read = self.state.number
        self._added = 0


def _settled(tx: Transaction, coming: list[Effect]) -> list[Effect]:
    return [now for one in coming for now, is_open in [newest(tx, one)] if not is_open]
