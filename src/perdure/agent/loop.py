"""The agent's loop. Its state is the transcript; every line of it is durable before the next thing is done.

    hear       what was sent, and what became of calls that were unknown
    act        the calls that the model made and was not told about yet: each an effect, told when it is settled
    rest       it has answered: wait for the next message
    stop       a limit is reached: wait for a person
    think      otherwise ask the model

Killed anywhere, it begins again at the top with what is on record, and does the next thing that is not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

from perdure.agent import away, compaction, context, thinking
from perdure.agent.calls import Calls
from perdure.agent.folders import begun, perform
from perdure.agent.ledger import AgentLedger, Doubted, doubts
from perdure.agent.limits import reached
from perdure.agent.model import Request
from perdure.agent.reading import END, FINGERPRINT, AgentRecords
from perdure.agent.telling import bounded, of_effect
from perdure.agent.transcript import CODEC, Line, line_of
from perdure.domain.effect import EffectState
from perdure.domain.inbox import Mode
from perdure.domain.wait import Wait
from perdure.errors import ModelError
from perdure.runtime.effect import tool_of
from perdure.store import checkpoint, fact, inbox, message
from perdure.store import effect as effects

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
        self._mark = self.run.clock.now()  # until here, the time that it worked is on record
        self._calls = Calls(ledger, self.state)

    async def live(self, prompt: str, once: bool) -> str:
        """Go on from wherever the transcript ends."""
        if not self.state.lines and self.state.summary is None:
            about = {"model": self.settings.model.name, "tools": self.settings.toolbox.names}
            await self._say({"role": "user", "content": prompt} | about | await self.ledger.snapshot("start"))
        if (line := begun(self.ledger, self.state)) is not None:
            await self._say(line)
        since = self.state.number
        if calls := self.state.open_calls():  # what these changed is no surprise, so they come first
            await self._act(calls)
        await self._look_around(since)
        while True:
            self.run.honour_requests()
            await self._hear()
            if calls := self.state.open_calls():
                await self._act(calls)
            elif (order := self.state.open_order()) is not None:
                await self._perform(order)
            elif (answer := self.state.answer()) is not None:
                if once and not await self._doubted():
                    return answer
                if not once:
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

    async def _look_around(self, since: int) -> None:
        """While you were away: what changed since the last line that was there, if anything did."""
        if self.state.replies:
            with self.run.active():
                found = await away.look(self.ledger, self.state, since)
            if found is not None:
                await self._say(found)

    async def _hear(self) -> None:
        """Let messages join: those that steer at once, the others when the model has answered."""
        working = self.state.replies and self.state.answer() is None and self.state.stopped() is None
        mode = Mode.STEER if working else None
        waits = self.state.open_calls()  # the answers to calls come first; what was sent is heard after them
        unread = await self.run.read(inbox.unread, self.run.session.uid, mode=mode, limit=1)
        if unread and not waits:
            with self.run.active():
                await self.run.write(inbox.promote(self.run.holder, mode=mode))
            await self._catch_up()
        if not waits:
            await self._tell_settled()

    async def _tell_settled(self) -> None:
        """What was unknown and no longer is: a person said so, or the outcome came. What did not happen is done now."""
        for id, planner in list(self.state.unknown.items()):
            found = await self.run.read(effects.maybe, planner, id)
            if found is not None and found.state == EffectState.PLANNED and planner == self.run.session.uid:
                with self.run.active(), suppress(Doubted):
                    found = await self.ledger.drive(tool_of(found), found)
            if found is not None and found.settled_at is not None:
                told = of_effect(found, await self.ledger.result_of(found))
                text = f"The call of {found.tool}, whose outcome was unknown, is settled. {told.status}: {told.text}"
                await self._say({"role": "note", "about": "settled", "settled": [id], "content": bounded(text)})

    async def _doubted(self) -> bool:
        """Wait for what is in doubt, if anything is: a session does not end before that is settled."""
        asked = await self.run.read(doubts, self.run.session.uid)
        if asked:
            await self._first_of([one.id for one in asked])
        return bool(asked)

    async def _act(self, calls: list[Any]) -> None:
        bodies, claims = await self._calls.see_through(calls)
        bodies[-1] |= self._worked()
        await self._say(*bodies, claims=claims)

    async def _perform(self, order: Line) -> None:
        """What a person ordered is an effect of the session; the model hears of it."""
        told = await perform(self.ledger, order)
        content = f"The person ordered {(order.order or {}).get('tool')}: {told.status}: {told.text}"
        body = {"role": "note", "about": "performed", "of": [order.uid, order.number], "content": content}
        await self._say(body | {"status": told.status, "effect": told.effect, "planner": told.planner})

    async def _think(self, once: bool) -> None:
        """One model call, whose answer is on record when this returns."""
        position = ["think", self.run.session.uid, self.state.number, self.state.replies]
        request = await self._request()
        model, hear = self.settings.model, thinking.listener(self.run)
        try:
            with self.run.active():
                reply = await thinking.ask(self.ledger, model, request, position, hear)
                body = thinking.body_of(reply) | self._worked()
                self.state.add(await thinking.record(self.ledger, model, reply, position, body))
        except ModelError as error:
            if error.details.get("too_long") and await self._compact(refused=True):
                return
            why = f"The model could not answer: {error.message}"
            body = {"role": "note", "about": "model", "content": why}
            with self.run.active():
                self.state.add(await thinking.record_failure(self.ledger, model, error, position, body))
            if once:
                await self._fail(error)

    async def _request(self) -> Request:
        orders = await self.run.read(fact.known, "orders")
        standing = "".join(f"\n- {one.key}: {one.value}" for one in orders)
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
            self.state.add(line)
        return line is not None

    async def _rest(self, detail: Any = None) -> None:
        """Wait for the next message, and for what is in doubt."""
        id = f"input-{self.state.number}"
        with self.run.active():
            resting = await self.run.write(message.rest(self.run.holder, id, detail))
            asked = await self.run.read(doubts, self.run.session.uid) if resting else []
        if resting:
            await self._checkpoint(at_rest=True)
            await self._first_of([id, *(one.id for one in asked)])

    async def _first_of(self, waits: list[str]) -> None:
        async def held(id: str) -> Wait:
            with self.run.active():
                return await self.run.wait_for(id)

        tasks = [asyncio.ensure_future(held(id)) for id in waits]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _stop(self, limit: ModelError, once: bool) -> None:
        """It cannot go on by itself: say so. Nobody is there to go on with a session that runs once."""
        if once:
            await self._fail(limit)
        await self._say({"role": "note", "about": "limit", "content": limit.message})

    async def _fail(self, error: ModelError) -> NoReturn:
        while await self._doubted():
            pass
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
            self.state.add(line_of(self.run.session.uid, number, at, body))

    async def _catch_up(self) -> None:
        """Count in what others had written: a message knows its place only now."""
        for event in await self.run.read(message.between, self.run.session.uid, self.state.number + 1, END):
            self.state.fold(event)

    async def _checkpoint(self, *, at_rest: bool = False) -> None:
        """Keep the state now and then; it costs nothing to lose."""
        fresh = self.state.number - self._checkpointed
        if fresh < (CHECKPOINT_EVERY if not at_rest else CHECKPOINT_EVERY // 4):
            return
        move = checkpoint.put(
            self.run.holder, number=self.state.number, codec=CODEC, fingerprint=FINGERPRINT,
            body=self.state.checkpoint(), keep_through=self.state.number // KEEP_EVERY * KEEP_EVERY,
        )  # fmt: skip
        with self.run.active():
            await self.run.write(move)
        self._checkpointed = self.state.number
