"""The ledger as an agent uses it: the same order of writes, in the agent's folder, without blocking the model.

A program that meets a doubt waits for a person. An agent is told that the outcome is unknown, and may continue to read;
only calls that would change something wait until the doubt is settled. A command that outlived its worker is found
again: its outcome is known, so it is not in doubt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from perdure.agent.files.snapshot import Snapshots
from perdure.agent.files.workspace import Workspace
from perdure.agent.mcp.catalogue import Catalogue
from perdure.agent.model import Model
from perdure.agent.permissions import GATE
from perdure.agent.reach import NETWORKLESS
from perdure.agent.settings import Settings
from perdure.agent.toolbox import call_details, shipped
from perdure.agent.tools.command import stop as stop_command
from perdure.agent.tools.result import source_of
from perdure.domain.effect import SETTLED, Effect, EffectState, Replay, next_generation
from perdure.domain.wait import Wait, WaitKind
from perdure.errors import NotDone, PerdureError
from perdure.ids import encode, host
from perdure.runtime.definitions.tool import Tool
from perdure.runtime.deploy.workspace import bind_workspace
from perdure.runtime.ledger.host import ActSite, OpenDoubt, Reattachment
from perdure.runtime.ledger.ledger import Ledger
from perdure.runtime.policy.call_facts import CallSite
from perdure.runtime.policy.objections import OwnPolicy
from perdure.runtime.run.lineage import inherited
from perdure.runtime.run.position import ExecutionLane
from perdure.runtime.run.run import Run
from perdure.store.move import StoreTransaction
from perdure.store.moves import doubt, task, wait
from perdure.store.moves import effect as effects
from perdure.store.moves import session as sessions
from perdure.store.moves.attempt import attempts_of
from perdure.store.moves.effect_input import AttemptResult


class AgentLedger:
    """The effects of one run of an agent: the runtime's ledger, and the agent as its host (`runtime.ledger.host`)."""

    def __init__(self, run: Run, policy: OwnPolicy, settings: Settings, home: Path | None) -> None:
        self.run = run
        self.own_policy: OwnPolicy | None = policy
        self.gate = GATE
        self.effects = Ledger(run, self)
        self.settings = settings
        self.home = home  # the folder of the snapshots, if there is one
        self.workspace: Workspace | None = None
        self.mcp: Catalogue | None = None
        self.enter: Callable[[Path], Workspace]
        self.read_origins: Callable[[], tuple[str, ...]]
        self.open_model: Callable[[str], Model]
        self.task_id: str | None = None  # the active task of its plan
        self._knows_task = False
        self.spent = run.session.cost_micros  # with what this run has spent
        self._uid = run.session.uid
        # Whether an effect may be in doubt. Only a holder can put one in doubt, so False is certain.
        self.in_doubt = any(one.doubted_at is not None for one in run.records.effects.values())

    @property
    def origins(self) -> tuple[str, ...]:
        """Where what the session has read comes from, with what the task of a sub-agent may be made of."""
        return self.read_origins()

    async def perform(
        self, tool: Tool[..., Any], arguments: dict[str, Any], position: list[Any], there: Effect | None
    ) -> Effect:
        """Do one call until it is settled: a new effect, an unfinished one of this session, or one of its lineage."""
        if not self._knows_task:
            self.task_id, self._knows_task = await self.run.read(task.active, self._uid), True
        try:
            return await self._perform(tool, arguments, position, there)
        finally:
            self._knows_task &= not tool.wants_log  # such a tool may have changed the plan

    async def _perform(
        self, tool: Tool[..., Any], arguments: dict[str, Any], position: list[Any], there: Effect | None
    ) -> Effect:
        if there is not None and there.session_uid != self._uid:
            there = await inherited(self.run, there)
        if tool.replay is not Replay.PURE and self.workspace is not None:
            await bind_workspace(self.run, self.workspace.root)
        if there is None:
            return await self.effects.begin(tool, arguments, position, None)
        if there.session_uid != self._uid:
            return there
        if there.number in self.run.records.repeated:
            generation = next_generation(there.generation, tool.retry)
            return await self.effects.begin(tool, arguments, position, None, generation=generation)
        return await self.effects.recovery.drive(tool, there)

    def call_site(self, tool: Tool[..., Any]) -> CallSite:
        """What is known of a call for the policy: the folder, and the sandbox that it would run in now."""
        place, level = self.workspace, self._level_of(tool.name)
        return CallSite(
            folder=None if place is None else place.root, sandbox=level, network=_network(place, level),
            model=self.settings.model.name, origins=self.origins, cost=self.spent,
        )  # fmt: skip

    async def details_for_approval(self, tool: Tool[..., Any], arguments: dict[str, Any]) -> dict[str, Any] | None:
        if self.workspace is None:
            return None
        return await asyncio.to_thread(call_details, self.workspace, tool.name, arguments)

    def act_site(self, tool: Tool[..., Any]) -> ActSite:
        """The agent's folder, with the sandbox that a shipped tool uses there."""
        enter = nullcontext if self.workspace is None else self.workspace.active
        if self.mcp is not None and self.mcp.owns(tool.name):
            return ActSite(None, self.mcp.active_in(enter), source_of)
        offered = shipped(tool.name)
        if offered is None:
            return ActSite(enter=enter)
        return ActSite(self._level_of(tool.name), enter, source_of)

    def _level_of(self, name: str) -> str | None:
        """The sandbox that a shipped tool uses in this folder."""
        offered = shipped(name)
        if offered is None or offered.level is None or self.workspace is None:
            return None
        try:
            return str(offered.level(self.workspace))
        except NotDone:  # there is no sandbox; the act itself reports that
            return "none"

    async def reattach(self, tool: Tool[..., Any], effect: Effect) -> Reattachment | None:
        """Find a command that outlived its worker; its outcome is known, so it is not in doubt."""
        offered = shipped(tool.name)
        if offered is None or offered.reattach is None or self.workspace is None or effect.doubted_at is not None:
            return None
        attempts = await self.run.read(attempts_of, effect.session_uid, effect.id)
        if not attempts or attempts[-1].ended_at is not None:
            return None
        last = attempts[-1]
        number = last.number if last.process.get("host") == host() else None
        workspace, key = self.workspace, effect.idempotency_key
        with self.run.interruption.watch(lambda by: stop_command(key, workspace, by)):
            found = await offered.reattach(key, workspace, attempt=number)
        if found is None:
            return None
        known = AttemptResult(outcome=found.outcome, result=found.result, error=found.error, reference=found.reference)
        return Reattachment(
            last.number, known, f"The command of attempt {last.number} outlived its worker: {found.why}"
        )

    async def doubt(self, effect: Effect, why: str, lane: ExecutionLane | None) -> None:  # noqa: ARG002 - no one waits
        """Record the doubt. The model is told that the outcome is unknown, and continues."""
        self.in_doubt = True
        await self.run.write(doubt.open_doubt(self.run.holder, effect.id, why))
        now = await self.effects.get(effect.id)
        if now.state not in SETTLED:  # otherwise its outcome came meanwhile
            raise OpenDoubt(now)

    async def stand_by(self) -> None:
        """The model continues with calls that change nothing; only a session that is to stop waits here."""
        while self.run.holder.cancel_requested and (asked := await self.run.read(doubts, self._uid)):
            await self.run.wait_for(asked[0].id)

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


def _network(place: Workspace | None, level: str | None) -> bool | None:
    """Whether a command can reach the network; only one sandbox has no way to it."""
    return None if place is None or level is None else place.network or level != NETWORKLESS


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
