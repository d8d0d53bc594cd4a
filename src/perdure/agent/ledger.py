"""The ledger as an agent uses it: the same order of writes, in the agent's folder, without holding the model up.

A program that meets a doubt waits for a person. An agent is told that the outcome is unknown and may go on looking;
only what would change something waits until the doubt is settled. A command that outlived its worker is found again:
what came of it is known, and so it is not in doubt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec

from perdure.agent.files.snapshot import Snapshots
from perdure.agent.files.workspace import Workspace
from perdure.agent.permissions import allowed
from perdure.agent.settings import Settings
from perdure.agent.toolbox import shipped
from perdure.agent.tools.result import source_of
from perdure.domain.effect import SETTLED, Effect, EffectState
from perdure.domain.fact import Fact
from perdure.domain.wait import Wait, WaitKind
from perdure.errors import NotDone, PerdureError, Suspended
from perdure.ids import encode, host
from perdure.runtime.definitions.tool import Gate, Outcome, Tool
from perdure.runtime.ledger.ledger import Ledger
from perdure.runtime.ledger.policy import Intent, Policy, Ruling
from perdure.runtime.run.lineage import inherited
from perdure.runtime.run.position import ExecutionLane
from perdure.runtime.run.run import Run
from perdure.store.move import StoreTransaction
from perdure.store.moves import doubt, wait
from perdure.store.moves import effect as effects
from perdure.store.moves import effect_input as intents
from perdure.store.moves import session as sessions
from perdure.store.moves.attempt import attempts_of

ASKED = frozenset({"run_command", "git_push"})
GATE = Gate("agent", expires=None, requester_may_decide=True)  # the model asks, and the person it works for decides


class OpenDoubt(Exception):
    """Nobody can say what came of an effect; a person is asked, and the model is told."""

    def __init__(self, effect: Effect) -> None:
        super().__init__(effect.id)
        self.effect = effect


class AgentLedger(Ledger):
    """The effects of one run of an agent."""

    def __init__(self, run: Run, policy: Callable[[Intent], str] | None, settings: Settings, home: Path | None) -> None:
        super().__init__(run, run.runtime.policy)
        self._own_policy = None if policy is None else Policy(policy, run.clock, GATE)
        self.settings = settings
        self.home = home  # where the snapshots of the folder are, if there is a place for them
        self.workspace: Workspace | None = None
        self.enter: Callable[[Path], Workspace]
        self.origins: tuple[str, ...] = ()
        self._allowed: dict[str, Fact] = {}  # what a person always allows in this session
        # Whether something may be in doubt; only a holder can put it there, so False is certain.
        self.in_doubt = any(one.doubted_at is not None for one in run.records.effects.values())

    def _rule(self, tool: Tool[..., Any], arguments: dict[str, Any]) -> Ruling:
        """The stricter of the runtime's policy and the agent's own."""
        ruling = self._asked(self._policy, tool, arguments)
        if self._own_policy is None or ruling.answer == "deny":
            return ruling
        own = self._asked(self._own_policy, tool, arguments)
        if own.answer == "ask" and tool.gate is None and (said := self._allowed.get(tool.name)) is not None:
            own = Ruling("allow", f"{said.updated_by} always allows {tool.name} in this session.")
        return own if own.answer == "deny" or ruling.answer == "allow" else ruling

    def _asked(self, policy: Policy, tool: Tool[..., Any], arguments: dict[str, Any]) -> Ruling:
        """What a policy says; one that fails cannot allow anything, so a person is asked."""
        try:
            return policy.rule(tool, self.run.session, arguments, self.origins)
        except Exception:
            careful = Policy(lambda _: "ask", self.run.clock, GATE)
            return careful.rule(tool, self.run.session, arguments, self.origins)

    def _dispatch(self, tool: Tool[..., Any]) -> intents.Dispatch:
        made = super()._dispatch(tool)
        offered = shipped(tool.name)
        if offered is None or offered.level is None or self.workspace is None:
            return made
        try:
            level = str(offered.level(self.workspace))
        except NotDone:  # there is none; the act itself will say so
            level = "none"
        return msgspec.structs.replace(made, sandbox=level)

    async def _call(
        self, tool: Tool[..., Any], id: str, key: str, arguments: dict[str, Any], number: int
    ) -> intents.AttemptResult:
        with self._here():
            known = await super()._call(tool, id, key, arguments, number)
        if known.reference is None and known.result is not None and shipped(tool.name) is not None:
            return msgspec.structs.replace(known, reference=source_of(known.result, arguments))
        return known

    async def _ask_probe(self, tool: Tool[..., Any], effect: Effect, number: int) -> tuple[Outcome, str | None]:
        with self._here():
            return await super()._ask_probe(tool, effect, number)

    def _here(self) -> Any:
        return nullcontext() if self.workspace is None else self.workspace.active()

    async def _doubt(self, effect: Effect, why: str, lane: ExecutionLane | None) -> Effect:  # noqa: ARG002 - nobody is held
        self.in_doubt = True
        await self.run.write(doubt.open_doubt(self.run.holder, effect.id, why))
        now = await self._get(effect.id)
        if now.state in SETTLED:  # its outcome came meanwhile
            return now
        raise OpenDoubt(now)

    async def recover(self, tool: Tool[..., Any], effect: Effect) -> None:
        try:
            await self._reattach(tool, effect)
            await self.drive(tool, effect)
        except OpenDoubt:
            await self._stand_by()

    async def undo(self, *args: Any, **kwargs: Any) -> Effect:
        try:
            return await super().undo(*args, **kwargs)
        except OpenDoubt as doubted:  # an undo in doubt holds nobody up; its request stays, and is taken up again
            await self._stand_by()
            raise Suspended from doubted

    async def _stand_by(self) -> None:
        """The model is told, and goes on with what changes nothing; only a session that is to stop waits here."""
        while self.run.holder.cancel_requested and (asked := await self.run.read(doubts, self._uid)):
            await self.run.wait_for(asked[0].id)

    async def _reattach(self, tool: Tool[..., Any], effect: Effect) -> None:
        """Find a command that outlived its worker; what it came to is its outcome, and settles its attempt."""
        offered = shipped(tool.name)
        if offered is None or offered.reattach is None or self.workspace is None or effect.doubted_at is not None:
            return
        attempts = await self.run.read(attempts_of, effect.session_uid, effect.id)
        if not attempts or attempts[-1].ended_at is not None:
            return
        ran_here = attempts[-1].process.get("host") == host()
        number = attempts[-1].number if ran_here else None
        found = await offered.reattach(effect.idempotency_key, self.workspace, attempt=number)
        if found is not None:
            known = intents.AttemptResult(
                outcome=found.outcome, result=found.result, error=found.error, reference=found.reference
            )
            because = f"The command of attempt {attempts[-1].number} outlived its worker: {found.why}"
            await self.run.write(doubt.record_recovery(self.run.holder, effect.id, because))
            await self._settle(tool, effect.id, attempts[-1].number, known)

    async def perform(
        self, tool: Tool[..., Any], arguments: dict[str, Any], position: list[Any], there: Effect | None
    ) -> Effect:
        """See one call through: a new effect, one of ours that was left, or one of the line's."""
        if there is not None and there.session_uid != self._uid:
            there = await inherited(self.run, there)
        if there is None:
            if self._own_policy is not None:  # a person may have allowed something since
                self._allowed = await self.run.read(allowed, self._uid)
            return await self._begin(tool, self.intent(tool, arguments, position), None)
        if there.session_uid != self._uid:
            return there
        return await self.drive(tool, there, None)

    async def snapshot(self, words: str) -> dict[str, Any]:
        """Keep the files as they are now; what a line of the transcript says of that. Losing one loses no session."""
        if self.workspace is None or self.home is None or not self.settings.snapshots:
            return {}
        try:
            taken = await asyncio.to_thread(lambda: Snapshots(self.workspace.root, self.home).take(words))  # type: ignore[union-attr,arg-type]
        except PerdureError as error:
            return {"snapshot_failed": error.message}
        return {"snapshot": taken.commit} | ({"not_kept": taken.not_kept} if taken.left_out else {})

    async def result_of(self, effect: Effect) -> str:
        """The recorded result as JSON text."""
        if effect.state != EffectState.ACKNOWLEDGED:
            return "null"
        try:
            return self.run.runtime.values.get(effect.result, effect.artifact)
        except PerdureError as error:  # it happened all the same
            return encode(f"It happened, but its result can no longer be read: {error.message}")


def doubts(tx: StoreTransaction, uid: str) -> list[Wait]:
    """What a person is asked about."""
    return wait.open_of_kind(tx, uid, WaitKind.DOUBT)


def line_of_effects(tx: StoreTransaction, uid: str, message_uid: str, number: int) -> dict[str, Effect]:
    """The effects planned after a line, by position: this session's own, and those of its line before the fork."""
    session, through = sessions.get(tx, uid), 2**62
    found: dict[str, Effect] = {}
    while True:
        own = session.uid == message_uid
        found = placed(tx, session.uid, number if own else 0, through) | found
        if own or session.forked_from is None or session.forked_at is None:
            return found
        through = session.forked_at
        session = sessions.get(tx, session.forked_from)


def placed(tx: StoreTransaction, uid: str, after: int, through: int = 2**62) -> dict[str, Effect]:
    """The effects planned after a line of the transcript, by their position; of several generations, the newest."""
    found: dict[str, Effect] = {}
    for effect in effects.of_session(tx, uid, after=after, through=through):
        at = encode(effect.position)
        if at not in found or found[at].generation < effect.generation:
            found[at] = effect
    return found


def ask_first(intent: Intent) -> str:
    """The policy of an agent that was given none: what leaves the folder, or may, is asked for."""
    return "ask" if intent.tool in ASKED else "allow"
