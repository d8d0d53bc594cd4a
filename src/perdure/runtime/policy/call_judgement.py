"""Judging a call in a run: the active policy, the facts of the call, and everything that objects to it.

A call is judged by the policy as this process knows it. Whatever follows is recorded with the fence of that policy: a
dispatch, a request for approval, a refusal. If another policy is active by then, nothing is written, and the call is
judged anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.domain.effect import Replay
from perdure.domain.policy import PolicyDocument
from perdure.domain.policy.facts import Action
from perdure.runtime.definitions.tool import Tool
from perdure.runtime.ledger.policy import Basis, Ruling, rule_on
from perdure.runtime.policy.active_policy import PolicyState
from perdure.runtime.policy.budgets import MODEL, affordable_policy
from perdure.runtime.policy.call_facts import CallSite, facts_of, model_facts
from perdure.runtime.policy.objections import Sources, objections_to, objections_to_model
from perdure.runtime.policy.repository_policy import documents_of, recorded_texts
from perdure.runtime.run.position import ExecutionLane
from perdure.runtime.run.run import Run

if TYPE_CHECKING:
    from perdure.runtime.ledger.host import Host

NOTHING = "none"  # the reach of a call that changes only the record


class CallJudgement:
    """Judges the calls of one run."""

    def __init__(self, run: Run, host: Host) -> None:
        self._run = run
        self._host = host
        self._repository: tuple[PolicyDocument, ...] = ()
        self._knows_repository = run.session.repository is None

    async def prepare(self) -> None:
        """Read what is needed before the program runs: otherwise the first calls would wait, and lose their order."""
        await self._sources(await self._run.runtime.active_policy.now(self._run.read))

    async def rule(
        self,
        tool: Tool[..., Any],
        arguments: dict[str, Any],
        lane: ExecutionLane | None = None,
        action: Action = "do",
        *,
        is_counted: bool = False,
    ) -> Ruling:
        """What a call of a tool needs before it begins. Waits while no policy allows dispatches, or for a budget.

        Budgets count an effect when it is first begun (`is_counted`: it was), and do not limit what is taken back.
        """
        reach = NOTHING if is_counted or action == "undo" else str(tool.reach)
        is_pure, nothing = tool.replay is Replay.PURE, tool.reach == NOTHING
        state = await affordable_policy(self._run, lane, reach, is_pure=is_pure, reaches_nothing=nothing)
        facts = facts_of(tool, arguments, self._run.session, self._host.call_site(tool), action)
        found, allowed_by = objections_to(tool, arguments, facts, self._run.session, await self._sources(state))
        return rule_on(found, self._basis(state, allowed_by))

    async def rule_on_model(self, name: str, site: CallSite) -> Ruling:
        """What a call of a model needs before it begins."""
        state = await affordable_policy(self._run, None, MODEL, is_pure=True)
        facts = model_facts(name, self._run.session, site)
        found, allowed_by = objections_to_model(facts, self._run.session, await self._sources(state))
        return rule_on(found, self._basis(state, allowed_by))

    def outdated(self) -> None:
        """A dispatch was refused: the policy is another one now."""
        self._run.runtime.active_policy.outdated()

    async def _sources(self, state: PolicyState) -> Sources:
        if not self._knows_repository:
            self._repository = documents_of(await self._run.read(recorded_texts, self._run.session))
            self._knows_repository = True
        return Sources(state, self._run.runtime.policy, self._host.own_policy, self._repository)

    def _basis(self, state: PolicyState, allowed_by: str | None) -> Basis:
        session = self._run.session
        return Basis(
            version=str(state.version), fence=state.fence.fence or "", rule=allowed_by, gate=self._host.gate,
            requester=session.owner or session.id, now=self._run.clock.now(),
        )  # fmt: skip
