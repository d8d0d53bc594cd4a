"""The agent's loop. Its state is the transcript, and each line of it is durable before the next step begins.

    read       new messages, and the outcomes of calls that were unknown
    act        the calls of the model that have no result yet: each is an effect, reported when it is settled
    rest       the model has answered: wait for the next message
    stop       a limit is reached: wait for a person
    think      otherwise ask the model

After a kill the loop starts again at the top with what is on record, and does the first step that is not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

from perdure.agent import inference
from perdure.agent.call_report import bounded, of_effect
from perdure.agent.files.session_folder import branch_note, perform
from perdure.agent.history import catch_up, compaction, context
from perdure.agent.history.inbox import InboxState, mode_of, read_inbox
from perdure.agent.history.reply_line import body_of
from perdure.agent.history.state_reader import FINGERPRINT, AgentRecords
from perdure.agent.history.transcript import CODEC, Line, line_of
from perdure.agent.ledger import AgentLedger, doubts
from perdure.agent.model import Request
from perdure.agent.model_choice import ModelChoice
from perdure.agent.output import final_answer
from perdure.agent.settings import Settings, reached, time_left
from perdure.agent.tool_calls import ToolCalls
from perdure.domain.effect import Effect, EffectState
from perdure.domain.fact import Fact
from perdure.errors import ModelError, Suspended
from perdure.runtime.ledger.host import OpenDoubt
from perdure.runtime.live_text.writer import LiveTextWriter
from perdure.runtime.recovery.recovery import tool_of
from perdure.runtime.run.lineage import newest, wake_branches
from perdure.secrets.redaction import redact_value
from perdure.store.move import StoreTransaction
from perdure.store.moves import checkpoint, message
from perdure.store.moves import effect as effects
from perdure.store.moves.artifact import ArtifactClaim

CHECKPOINT_EVERY = 100  # events; what a resume reads beside its window
KEEP_EVERY = 1000  # events; a fork at any of them starts from a checkpoint that is at most this far away


class Loop:
    """One run of one agent."""

    def __init__(self, ledger: AgentLedger, records: AgentRecords) -> None:
        self.run = ledger.run
        self.ledger = ledger
        self.state = records.state
        self._checkpointed = records.checkpointed
        self._read = self.state.number  # up to here the lines were read from the log
        self._added = 0  # lines that this run added since
        self._since = records.since
        self._resting = records.resting
        self._inbox: InboxState | None = records.inbox  # read and not used yet
        self._checks_inbox = True  # whether to read the inbox although the model has answered
        self._orders: list[Fact] = []
        self._pending: list[Effect] = []  # effects of the lineage that are not settled yet
        self._mark = self.run.clock.now()  # work until here is on record
        self._calls = ToolCalls(ledger, self.state)
        self._model = ModelChoice(ledger)

    @property
    def settings(self) -> Settings:
        return self.ledger.settings

    async def live(self, prompt: Any, once: bool) -> str:
        """Continue from the end of the transcript."""
        if not self.state.lines and self.state.summary is None:
            about = {"model": self.settings.model.name, "tools": self.settings.toolbox.names}
            await self._say({"role": "user", "content": prompt} | about | await self.ledger.snapshot("start"))
        if (line := branch_note(self.ledger, self.state)) is not None:
            await self._say(line)
        if self.ledger.mcp is not None and (line := self.ledger.mcp.note(self.state.lines)) is not None:
            await self._say(line)
        if calls := self.state.open_calls():  # before catching up, which reports changes that the agent did not make
            await self._act(calls)
        await self._catch_up()
        while True:
            self.run.honour_requests()
            if calls := self.state.open_calls():  # new messages come after the results of these
                await self._act(calls)
                continue
            if self.run.interruption.ends_turn:
                await self._end_turn()
                continue
            await self._read_news()
            if (order := self.state.open_order()) is not None:
                await self._perform(order)
            elif self.settings.typed and (note := final_answer.demand(self.state)) is not None:
                await self._say(note)
            elif (answer := self.state.answer()) is not None:
                if once:
                    await self._settle_doubts()
                    return answer
                await self._rest()
            elif (why := self._model.stop_note(self.state)) is not None:
                if once and why["about"] != "rewound":  # a rewound branch waits for the message that continues it
                    await self._fail(ModelError(str(why["content"]), retry=False))
                await self._rest(_reason(why))
            elif (limit := reached(self.settings.limits, self.state, self._unwritten())) is not None:
                await self._stop(ModelError(limit, retry=False), once)
            else:
                await self._compact()
                await self._think(once)
            await self._checkpoint()

    async def _catch_up(self) -> None:
        """Add a note about what changed since the last line, if anything did."""
        if self.state.replies:
            with self.run.active():
                note = await catch_up.note(self.ledger, self.state, self._since)
            if note is not None:
                await self._say(note)

    async def _read_news(self) -> None:
        """Add new messages, and report the outcomes of calls that were unknown. A rest reads its own, as it begins."""
        if self._checks_inbox or self.state.answer() is None:
            await self._add_messages()
        self._pending = []
        for id, planner in list(self.state.unknown.items()):
            await self._report_settled(id, planner)
        if self._resting and self.state.answer() is None and self._model.stop_note(self.state) is None:
            with self.run.active():
                await self.run.write(message.end_message_waits(self.run.holder))
            self._resting = False

    async def _add_messages(self) -> None:
        mode, uid = mode_of(self.state), self.run.session.uid
        found, self._inbox, self._checks_inbox = self._inbox, None, False
        if found is None:
            found = await self.run.read(read_inbox, uid, mode, self.run.session.repository)
        self._orders = found.orders
        if self._model.follow(found.model):
            self._since = self._since._replace(asked=0, waited=0)
        if found.unread:
            with self.run.active():
                joined = await self.run.write(message.promote_messages(self.run.holder, mode=mode))
            for number, at, body in joined:
                self._add(line_of(uid, number, at, body))

    async def _report_settled(self, id: str, planner: str) -> None:
        """Report an outcome that is no longer unknown. An effect that did not happen is carried out now."""
        found = await self.run.read(effects.get_or_none, planner, id)
        if found is not None and planner != self.run.session.uid:
            now, is_open = await self.run.read(newest, found)
            if is_open:
                self._pending.append(now)
                return
            found = now
        elif found is not None and found.state == EffectState.PLANNED:
            with self.run.active(), suppress(OpenDoubt):
                found = await self.ledger.effects.recovery.drive(tool_of(found), found)
        if found is not None and found.settled_at is not None:
            report = of_effect(found, await self.ledger.result_of(found))
            text = f"The call of {found.tool}, whose outcome was unknown, is settled. {report.status}: {report.text}"
            await self._say({"role": "note", "about": "settled", "settled": [id], "content": bounded(text)})

    async def _settle_doubts(self) -> None:
        """Wait for effects in doubt, if there are any: a session does not end before they are settled."""
        if asked := await self.run.read(doubts, self.run.session.uid):
            self._park([one.id for one in asked])

    async def _act(self, calls: list[Any]) -> None:
        bodies, claims = await self._calls.see_through(calls)
        bodies[-1] |= self._worked()
        if self.run.interruption.ends_turn:
            await self._end_turn(bodies, claims)
        else:
            await self._say(*bodies, claims=claims)
        self._inbox = None
        await self._checkpoint()

    async def _end_turn(
        self, bodies: Sequence[dict[str, Any]] = (), claims: Sequence[ArtifactClaim] = (),
        cut: message.CutReply | None = None,
    ) -> None:  # fmt: skip
        """The turn was interrupted: record what is known of it, and the stop; then wait for the next message."""
        by = await self.run.interruption.requester()
        at_rest = self.state.answer() is not None or self.state.stopped() is not None
        note = {"role": "note", "about": "interrupted", "by": by, "content": f"{by} stopped the work here."}
        with self.run.active():
            written = await self.run.write(
                message.end_turn(self.run.holder, bodies, note, claims, cut=cut, at_rest=at_rest)
            )
        for number, at, body in written:
            self._add(line_of(self.run.session.uid, number, at, dict(body)))
        self.run.interruption.end()
        self._inbox, self._checks_inbox = None, True

    async def _perform(self, order: Line) -> None:
        """Carry out what a person ordered, as an effect of the session, and report it to the model."""
        report = await perform(self.ledger, order)
        content = f"The person ordered {(order.order or {}).get('tool')}: {report.status}: {report.text}"
        body = {"role": "note", "about": "performed", "of": [order.uid, order.number], "content": content}
        await self._say(body | {"status": report.status, "effect": report.effect, "planner": report.planner})

    async def _think(self, once: bool) -> None:
        """One model call, whose answer is on record when this returns."""
        request, call, model = await self._request(), self._model_call(), self.settings.model
        try:
            with self.run.active(), LiveTextWriter(self.run) as speech:
                try:
                    reply = await inference.ask(self.ledger, model, request, call, speech)
                except inference.ReplyCut as cut:
                    await self._end_turn(cut=inference.cut_reply(self.ledger, model, cut, call, self._worked()))
                    return
                body = body_of(reply) | self._worked()
                self._add(await inference.record(self.ledger, model, reply, call, body))
        except ModelError as error:
            if error.details.get("too_long") and await self._compact(refused=True):
                return
            body = self._model.failure_note(error, once)
            with self.run.active():
                self._add(await inference.record_failure(self.ledger, model, error, call, body))
            if once:
                await self._fail(error)

    def _model_call(self) -> inference.ModelCall:
        """The next model call. Attempts that earlier runs made at it count."""
        position = ["think", self.run.session.uid, self.state.number, self.state.replies]
        until = time_left(self.settings.limits, self.state, self._unwritten())
        if self._since.said != self.state.said(self.run.session.uid):
            return inference.ModelCall(position, until=until)
        return inference.ModelCall(position, self._since.asked, self._since.waited, until)

    async def _request(self) -> Request:
        standing = "".join(f"\n- {one.key}: {one.value}" for one in self._orders)
        parts = [self.settings.instructions, context.TRUTH, f"Standing orders:{standing}" if standing else ""]
        request = Request(
            instructions="\n\n".join(part for part in parts if part),
            turns=context.turns(self.state, self.settings.context),
            tools=self.settings.toolbox.offers,
            number=self.state.replies,
        )
        if not any(turn.files for turn in request.turns):
            return request
        return await asyncio.to_thread(context.with_files, request, self.run.runtime.values.directory)

    async def _compact(self, *, refused: bool = False) -> bool:
        with self.run.active():
            try:
                line = await compaction.compact(self.ledger, self.state, refused=refused)
            except inference.ReplyCut:  # the next model call ends the turn
                return False
        if line is not None:
            self._add(line)
        return line is not None

    async def _rest(self, detail: Any = None) -> None:
        """Wait for the next message, for effects in doubt, and for effects of the lineage that are not settled."""
        id, pending = f"input-{self.state.number}", self._pending
        own = [id for id, planner in self.state.unknown.items() if planner == self.run.session.uid]
        with self.run.active():
            waits = await self.run.write(
                message.wait_for_message(self.run.holder, id, detail, own, [one.id for one in pending])
            )
        self._checks_inbox, self._resting = True, bool(waits)
        if not waits:
            return
        await self._checkpoint(at_rest=True)
        settled = await self.run.read(_settled, pending) if pending else []
        for one in settled:  # it may have been settled before our wait was there to be seen
            await wake_branches(self.run.store, one, self.run.holder.name)
        if not settled:
            self._park(waits)

    def _park(self, waits: list[str]) -> NoReturn:
        """Leave the run until one of these waits is resolved. Parking notices one that is resolved already."""
        self.run.unwind()
        self.run.blocked_on = waits
        raise Suspended

    async def _stop(self, limit: ModelError, once: bool) -> None:
        """Record that a limit is reached, and wait for a person. A session that runs once fails instead."""
        if once:
            await self._fail(limit)
        await self._say({"role": "note", "about": "limit", "content": limit.message})

    async def _fail(self, error: ModelError) -> NoReturn:
        await self._settle_doubts()
        raise error

    def _unwritten(self) -> int:
        """The time worked since the last line. A wait leaves the run, so it does not count as work."""
        return self.run.clock.now() - self._mark

    def _worked(self) -> dict[str, int]:
        worked, self._mark = self._unwritten(), self.run.clock.now()
        return {"worked": worked}

    async def _say(self, *bodies: dict[str, Any], claims: Sequence[ArtifactClaim] = ()) -> None:
        bodies = tuple(body if body["role"] == "user" else redact_value(body) for body in bodies)
        with self.run.active():
            written = await self.run.write(message.append_lines(self.run.holder, bodies, claims))
        for (number, at), body in zip(written, bodies, strict=True):
            self._add(line_of(self.run.session.uid, number, at, body))

    def _add(self, line: Line) -> None:
        self.state.add(line)
        self._added += 1

    async def _checkpoint(self, *, at_rest: bool = False) -> None:
        """Write a checkpoint now and then; losing one costs only time.

        A state that lacks a line which another process added is not written.
        """
        fresh = self.state.number - self._checkpointed
        if fresh < (CHECKPOINT_EVERY if not at_rest else CHECKPOINT_EVERY // 2):
            return
        since = await self.run.read(message.lines_between, self.run.session.uid, self._read + 1, self.state.number)
        if len(since) != self._added:
            return  # another process added a line; the next run reads it
        move = checkpoint.put(
            self.run.holder, number=self.state.number, codec=CODEC, fingerprint=FINGERPRINT,
            body=self.state.checkpoint(), keep_through=self.state.number // KEEP_EVERY * KEEP_EVERY,
        )  # fmt: skip
        with self.run.active():
            await self.run.write(move)
        self._checkpointed = self._read = self.state.number
        self._added = 0


def _settled(tx: StoreTransaction, pending: list[Effect]) -> list[Effect]:
    return [now for one in pending for now, is_open in [newest(tx, one)] if not is_open]


def _reason(note: dict[str, Any]) -> dict[str, Any] | None:
    """Why the session needs a person. A session that a person stopped needs only the next message."""
    return None if note["about"] == "interrupted" else {"about": note["about"], "why": note["content"]}
