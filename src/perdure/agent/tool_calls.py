"""The tool calls of one message of the model: each becomes an effect, a question or a sub-agent, once.

Calls run in parallel, but one that changes the folder waits for those before it, and those after it wait for it. While
an effect is in doubt, no call begins that could change something. A call that cannot begin is reported as not started.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext, suppress
from typing import Any

import msgspec

from perdure.agent import call_report
from perdure.agent.call_report import CallReport
from perdure.agent.history.state_reader import state_of
from perdure.agent.history.transcript import OpenCall, State, words
from perdure.agent.ledger import AgentLedger, doubts, line_of_effects
from perdure.agent.output import final_answer
from perdure.agent.permissions import permit_secrets
from perdure.agent.toolbox import AgentTool
from perdure.domain.effect import SETTLED, Effect, EffectState, Replay
from perdure.domain.session import SessionRecord
from perdure.domain.wait import Wait, WaitKind
from perdure.errors import ConfigError, NotFound, PerdureError, Suspended
from perdure.ids import digest, encode
from perdure.runtime.definitions.program import Bound, get_program
from perdure.runtime.definitions.tool import TOOLS, Tool
from perdure.runtime.ledger.host import OpenDoubt
from perdure.runtime.run.interruption import Interrupted
from perdure.runtime.run.large_values import Values
from perdure.runtime.run.lineage import expects_successor, inherited
from perdure.runtime.run.records import as_open
from perdure.store.move import StoreTransaction
from perdure.store.moves import effect as effects
from perdure.store.moves import message, wait
from perdure.store.moves import session as sessions
from perdure.store.moves.artifact import TEXT, ArtifactClaim
from perdure.store.moves.attempt import attempts_of

DEEPEST = 3  # sub-agents of sub-agents
ELSEWHERE = "[It was done in the folder that this branch was forked from. This folder is as it was before that.]"
LEAST = 500  # characters of each answer that are shown, however many calls there are


class ToolCalls:
    """Performs the tool calls of one run."""

    def __init__(self, ledger: AgentLedger, state: State) -> None:
        self.ledger = ledger
        self.run = ledger.run
        self.settings = ledger.settings
        self.state = state
        self._places = asyncio.Semaphore(self.settings.parallel)
        self._before = state.number  # what was said after this was said in this run
        self._there: dict[str, Effect] = {}
        self._known: dict[str, str | None] = {}

    async def see_through(self, calls: list[OpenCall]) -> tuple[list[dict[str, Any]], list[ArtifactClaim]]:
        """Do them; returns what the model is told of each, in order, and the bytes that these lines name."""
        line = calls[0].line
        uid, self._there = self.run.session.uid, {}
        if line.uid != uid or line.number <= self._before:  # otherwise none of them can have begun
            self._there = await self.run.read(line_of_effects, uid, line.uid, line.number)
        self._known = dict(self.state.files)
        told: dict[int, CallReport] = {}
        beside: list[OpenCall] = []
        for call in calls:
            offered = self.settings.toolbox.get(call.name)
            if offered is None or not offered.serial:
                beside.append(call)
                continue
            await self._side_by_side(beside, told)
            beside = []
            await self._side_by_side([call], told)
        await self._side_by_side(beside, told)
        claims = [claim for call in calls if (claim := self._claim(told[call.nth])) is not None]
        most = max(LEAST, min(call_report.BOUND, self.settings.context * 2 // len(calls)))
        bodies = [told[call.nth].body(call, most) for call in calls]
        if self.ledger.workspace is not None and (head := self.ledger.workspace.head()) != self.state.head:
            bodies[-1]["head"] = head
        if any(self._may_have_changed(call) for call in calls):
            bodies[-1] |= await self.ledger.snapshot(f"after the calls of {calls[0].line.number}")
        return bodies, claims

    def _may_have_changed(self, call: OpenCall) -> bool:
        offered = self.settings.toolbox.get(call.name)
        return offered is not None and offered.serial

    async def _side_by_side(self, calls: list[OpenCall], told: dict[int, CallReport]) -> None:
        """Run each call to its end, whatever happens to the others: an act that has begun is never abandoned."""
        ends = await asyncio.gather(*(self._one(call) for call in calls), return_exceptions=True)
        for call, end in zip(calls, ends, strict=True):
            if isinstance(end, CallReport):
                told[call.nth] = end
                self._known |= {} if end.result is None else end.result.read  # what the next call may rely on
        errors = [end for end in ends if isinstance(end, BaseException)]
        for error in errors:
            if not isinstance(error, Suspended):
                raise error
        if errors:
            raise Suspended

    async def _one(self, call: OpenCall) -> CallReport:
        if call.nth >= self.settings.most_calls:
            return call_report.not_started(f"more than {self.settings.most_calls} calls were made in one message.")
        async with self._places:
            with self.run.active():
                self.run.honour_requests()
                try:
                    if not self._has_record(call):
                        await self.run.interruption.check()
                    return await self._do(call)
                except Interrupted as stop:
                    return call_report.not_started(f"{stop} Do not repeat this call unless you are asked to.")

    def _has_record(self, call: OpenCall) -> bool:
        """Whether the call may have begun: its outcome is reported even if the turn was interrupted."""
        offered = self.settings.toolbox.get(call.name)
        return encode(self._position(call)) in self._there or (offered is not None and offered.kind == "child")

    async def _do(self, call: OpenCall) -> CallReport:
        there = self._there.get(encode(self._position(call)))
        return await self._begin(call) if there is None else await self._continue(call, there)

    async def _begin(self, call: OpenCall) -> CallReport:
        """A call without a record."""
        offered = self.settings.toolbox.get(call.name)
        if offered is None:
            names = ", ".join(self.settings.toolbox.names)
            return call_report.not_started(f"there is no tool {call.name[:80]!r}; there are: {names}.")
        if call.secret is not None:
            return call_report.with_secret(call.secret)
        try:
            if offered.prepare is None:
                tool, arguments = self._prepared(offered, call)
            else:  # it may read files
                tool, arguments = await asyncio.to_thread(self._prepared, offered, call)
        except PerdureError as error:
            return call_report.from_error(error)
        except OSError as error:
            return call_report.not_started(f"{type(error).__name__}: {error.strerror or error}.")
        match offered.kind:
            case "ask":
                return await self._ask(call, arguments)
            case "child":
                return await self._delegate(call, offered, arguments)
            case "answer":
                return final_answer.deliver(offered, call, arguments)
        return await self._effect(call, tool, arguments, None)

    async def _continue(self, call: OpenCall, there: Effect) -> CallReport:
        """A call with a record, of this session or its lineage. One that never began, and cannot now, is refused."""
        if there.session_uid != self.run.session.uid:
            now = await inherited(self.run, there)
            if now is None:  # it never happened, and is ours to plan
                return await self._begin(call)
            there = now
        if there.state in SETTLED and not expects_successor(there, _retry(there)):
            told = call_report.of_effect(there, await self.ledger.result_of(there))
            elsewhere = there.session_uid != self.run.session.uid and self._may_have_changed(call)
            return msgspec.structs.replace(told, text=f"{told.text}\n{ELSEWHERE}") if elsewhere else told
        tool = TOOLS.get(there.tool)
        try:
            if tool is None:
                raise ConfigError(f"the tool {there.tool} is no longer here.")
            tool.signature.unbind(self.run.runtime.values.whole(there).intent)
        except ConfigError as error:
            attempts = await self.run.read(attempts_of, there.session_uid, there.id)
            if there.state != EffectState.PLANNED or attempts:
                raise
            refused = effects.refuse(self.run.holder, there.id, "tool-changed", error.message)
            return call_report.of_effect(await self.run.write(refused), "null")
        return await self._effect(call, tool, there.intent, there)

    def _prepared(self, offered: AgentTool, call: OpenCall) -> tuple[Tool[..., Any], dict[str, Any]]:
        """The tool that is meant, and its complete arguments; raises `ConfigError` if they do not fit."""
        if not isinstance(call.arguments, dict):
            raise ConfigError(f"the arguments are not a JSON object: {call.arguments!r:.200}")
        if ours := offered.hidden & call.arguments.keys():
            raise ConfigError(f"{call.name} takes no {', '.join(sorted(ours))}.")
        arguments = call.arguments
        with nullcontext() if self.ledger.workspace is None else self.ledger.workspace.active():
            if offered.prepare is not None:
                arguments = offered.prepare(dict(arguments), self._known)
            tool = offered.tool if offered.pick is None else offered.pick(arguments)
        bound = tool.signature.bind((), arguments)
        permit_secrets(tool, bound)
        return tool, bound

    def _position(self, call: OpenCall) -> list[Any]:
        return ["call", call.line.uid, call.line.number, call.nth]

    async def _effect(
        self, call: OpenCall, tool: Tool[..., Any], arguments: dict[str, Any], there: Effect | None
    ) -> CallReport:
        try:
            if there is None and tool.replay is not Replay.PURE:
                await self._no_doubt()
            effect = await self.ledger.perform(tool, arguments, self._position(call), there)
        except OpenDoubt as doubted:
            return call_report.of_effect(doubted.effect, "null")
        return call_report.of_effect(effect, await self.ledger.result_of(effect))

    async def _no_doubt(self) -> None:
        """Wait until doubts are settled, here and in the lineage, before a call changes something new."""
        uid = self.run.session.uid
        while self.ledger.in_doubt:
            self.ledger.in_doubt = False  # before the look: another call may put something in doubt meanwhile
            if asked := await self.run.read(doubts, uid):
                self.ledger.in_doubt = True
                await self.run.wait_for(asked[0].id)
        for id, planner in self.state.unknown.items():
            if planner != uid and (found := await self.run.read(effects.get_or_none, planner, id)) is not None:
                await inherited(self.run, found)

    async def _ask(self, call: OpenCall, arguments: dict[str, Any]) -> CallReport:
        run, there = self.run, await self.run.read(_line_of_waits, self.run.session, "ask", self._position(call))
        if there is None or there.resolved_at is None:
            id = _wait_id("ask", run.session.uid, self._position(call))
            detail = {"question": arguments["question"], "choices": arguments.get("choices")}
            await run.write(wait.open_(run.holder, id, WaitKind.INPUT, ref="ask", detail=detail))
            there = await run.wait_for(id)
        return call_report.done(f"{there.resolved_by} answers: {there.answer}")

    async def _delegate(self, call: OpenCall, offered: AgentTool, arguments: dict[str, Any]) -> CallReport:
        run, id = self.run, _wait_id("child", self.run.session.uid, self._position(call))
        if await run.read(_depth, run.session) >= DEEPEST:
            return call_report.not_started(f"a sub-agent of a sub-agent may not delegate further than {DEEPEST} times.")
        program = get_program(offered.program or run.session.program)
        same = {} if offered.program else run.session.arguments
        given = same | {"prompt": arguments["task"], "once": True}
        bound: Bound[Any] = Bound(program, program.signature.bind((), given))
        there = await run.read(_line_of_waits, run.session, "child", self._position(call))
        if there is None:
            await run.interruption.check()
        if there is None or there.resolved_at is None:
            inherited, name = None if there is None else there.ref, f"{run.session.id[:150]}.{id}"
            try:
                there = await run.runtime.driver.run_child(run, bound, name, id, None, inherited)
            except Interrupted as stop:
                return CallReport("unknown", f"{stop} The sub-agent {name} was told to stop, and has not ended yet.")
        return _told_of_child(there, run.runtime.values, *await run.read(_child_of, there))

    def _claim(self, told: CallReport) -> ArtifactClaim | None:
        named = told.result.artifact if told.result is not None else None
        folder = self.run.runtime.values.directory
        if named is None or folder is None:
            return None
        try:
            return ArtifactClaim(named, folder.size(named), TEXT)
        except OSError:
            return None


def _retry(effect: Effect) -> int:
    return TOOLS[effect.tool].retry if effect.tool in TOOLS else 1


def _wait_id(prefix: str, uid: str, position: list[Any]) -> str:
    """A session's own name for a wait: two branches that ask the same have two waits."""
    return f"{prefix}-{digest(encode([uid, *position]))[:16]}"


def _line_of_waits(tx: StoreTransaction, session: SessionRecord, prefix: str, position: list[Any]) -> Wait | None:
    """The wait of a call: this session's own, or one of its line. An answer counts if it was there at the fork, a
    sub-agent if it had begun there: what it does is not done again."""
    through = 2**62
    while True:
        with suppress(NotFound):
            found = as_open(wait.get(tx, session.uid, _wait_id(prefix, session.uid, position)))
            settled = found.resolved_number is not None and found.resolved_number <= through
            if settled or (prefix == "child" and found.number <= through):
                return found
        if session.forked_from is None or session.forked_at is None:
            return None
        through = session.forked_at
        session = sessions.get(tx, session.forked_from)


def _child_of(tx: StoreTransaction, there: Wait) -> tuple[str, dict[str, Any], list[str]]:
    """The id of a sub-agent, what it used, and what it has read."""
    child = sessions.get(tx, there.ref or "")
    return child.id, msgspec.to_builtins(message.total_usage(tx, child)), list(state_of(tx, child)[0].origins)


def _told_of_child(there: Wait, values: Values, id: str, used: dict[str, Any], read: list[str]) -> CallReport:
    """What a sub-agent answered, with what it used and what it has read."""
    answer, more = there.answer, {"usage": used, "origin": f"agent:{id}", "origins": read}
    if answer["status"] == "done":
        return call_report.done(words(values.get_whole(answer["result"])), **more)
    return CallReport("failed", f"the sub-agent {answer['id']} is {answer['status']}: {answer['error']}", more=more)


def _depth(tx: StoreTransaction, session: SessionRecord) -> int:
    depth = 0
    while session.parent_uid is not None:
        session, depth = sessions.get(tx, session.parent_uid), depth + 1
    return depth
