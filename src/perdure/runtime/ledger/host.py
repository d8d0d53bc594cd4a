"""The host of a run's effects: which policy allows them, where their tools act, and whether a doubt holds the caller.

A program and an agent use the same ledger with different hosts.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import msgspec

from perdure.domain.effect import Effect
from perdure.runtime.definitions.tool import Gate, Tool
from perdure.runtime.ledger.policy import GATE
from perdure.runtime.policy.call_facts import CallSite, folder_of
from perdure.runtime.policy.objections import OwnPolicy
from perdure.runtime.run.position import ExecutionLane
from perdure.runtime.run.run import Run
from perdure.store.moves import doubt
from perdure.store.moves.effect_input import AttemptResult


class OpenDoubt(Exception):
    """The outcome of an effect is unknown and a person is asked; the caller continues without it."""

    def __init__(self, effect: Effect) -> None:
        super().__init__(effect.id)
        self.effect = effect


class ActSite(msgspec.Struct, frozen=True):
    """Where a tool acts: the sandbox that the attempt records, and the context that the act runs in.

    `reference` names the source of a result, if the tool itself gave no reference.
    """

    sandbox: str | None = None
    enter: Callable[[], AbstractContextManager[None]] = nullcontext
    reference: Callable[[str, dict[str, Any]], str | None] | None = None


class Reattachment(msgspec.Struct, frozen=True):
    """The outcome of an attempt that outlived its worker, and how it was found."""

    number: int
    outcome: AttemptResult
    because: str


class Host(Protocol):
    """What the ledger needs to know of the program or agent that it works for."""

    @property
    def own_policy(self) -> OwnPolicy | None:
        """The policy of the agent itself; None for a program."""

    @property
    def gate(self) -> Gate:
        """Who decides about what a rule without a gate of its own asks."""

    @property
    def task_id(self) -> str | None:
        """The task of the plan that a new effect belongs to."""

    def call_site(self, tool: Tool[..., Any]) -> CallSite:
        """What is known of a call besides its arguments, for the policy."""

    async def details_for_approval(self, tool: Tool[..., Any], arguments: dict[str, Any]) -> dict[str, Any] | None:
        """What helps a person to judge the call, such as the folder and the sandbox of a command."""

    def act_site(self, tool: Tool[..., Any]) -> ActSite:
        """Where the tool acts now."""

    async def reattach(self, tool: Tool[..., Any], effect: Effect) -> Reattachment | None:
        """Find an attempt that outlived its worker."""

    async def doubt(self, effect: Effect, why: str, lane: ExecutionLane | None) -> None:
        """Record that an effect is in doubt; then wait for a person, or raise `OpenDoubt`."""

    async def stand_by(self) -> None:
        """Recovery left an effect in doubt; wait here if the session cannot continue without it."""


class ProgramHost:
    """The host of a program: the runtime's policy decides, tools act in this process, and a doubt holds the caller."""

    def __init__(self, run: Run) -> None:
        self._run = run

    @property
    def own_policy(self) -> OwnPolicy | None:
        return None

    @property
    def gate(self) -> Gate:
        return GATE

    @property
    def task_id(self) -> str | None:
        return None

    def call_site(self, tool: Tool[..., Any]) -> CallSite:  # noqa: ARG002 - the same for every tool
        session = self._run.session
        return CallSite(folder=folder_of(session), model=session.model, cost=session.cost_micros)

    async def details_for_approval(
        self,
        tool: Tool[..., Any],  # noqa: ARG002 - the arguments are all that is known
        arguments: dict[str, Any],  # noqa: ARG002 - as above
    ) -> dict[str, Any] | None:
        return None

    def act_site(self, tool: Tool[..., Any]) -> ActSite:  # noqa: ARG002 - the same for every tool
        return THIS_PROCESS

    async def reattach(self, tool: Tool[..., Any], effect: Effect) -> Reattachment | None:  # noqa: ARG002 - as above
        return None

    async def doubt(self, effect: Effect, why: str, lane: ExecutionLane | None) -> None:
        await self._run.wait_for(await self._run.write(doubt.open_doubt(self._run.holder, effect.id, why)), lane)

    async def stand_by(self) -> None:
        return None


THIS_PROCESS = ActSite()
