"""Waiting for a policy that allows dispatches: while it is frozen, and where this process cannot read it.

    open     the session waits for `policy`; it is shown with the reason
    look     the policy is read again, after the wait is durable
    resume   a new version or a thaw wakes workers, which resolve every such wait; or a run that is asked for does

So no session is left behind: a process that resolves waits looks for them after the thaw was committed, and a run looks
at the policy after its wait was committed. One of the two sees the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.domain.wait import Wait, WaitKind
from perdure.runtime.policy.active_policy import PURE_AGE, STORE, ActivePolicy, PolicyState, state_in
from perdure.runtime.run.position import ExecutionLane
from perdure.runtime.run.run import Run
from perdure.store.move import Log, StoreTransaction, holder_move
from perdure.store.moves import wait

if TYPE_CHECKING:
    from perdure.runtime.runtime import Runtime


async def usable_policy(
    run: Run, lane: ExecutionLane | None = None, *, is_pure: bool = False, reaches_nothing: bool = False
) -> PolicyState:
    """The active policy, once it allows dispatches. What reaches nothing needs no text, but it is never dispatched
    while the policy is frozen."""
    policy = run.runtime.active_policy
    while True:
        state = await policy.now(run.read, younger_than=PURE_AGE if is_pure else None)
        if _serves(state, reaches_nothing=reaches_nothing):
            return state
        run.check()
        await _wait(run, policy, lane, reaches_nothing=reaches_nothing)


def _serves(state: PolicyState, *, reaches_nothing: bool) -> bool:
    return state.is_usable or (reaches_nothing and state.fence.fence is not None)


async def _wait(run: Run, policy: ActivePolicy, lane: ExecutionLane | None, *, reaches_nothing: bool) -> None:
    """Wait until the policy may be another one."""
    state = await policy.now(run.read, younger_than=0)
    if _serves(state, reaches_nothing=reaches_nothing):
        return
    opened = await run.write(_open(run.holder, {"why": state.error, "version": state.version}))
    state = await policy.now(run.read, younger_than=0)
    if _serves(state, reaches_nothing=reaches_nothing):
        await run.runtime.requests.resolve(opened, None, run.runtime.worker.name)
    await run.wait_for(opened.id, lane)


@holder_move
def _open(log: Log, detail: dict[str, Any]) -> Wait:
    """Wait for the policy; the calls of a session that cannot begin share one wait."""
    there = [one for one in wait.open_for(log.tx, log.uid, STORE) if one.kind == WaitKind.POLICY]
    return there[0] if there else wait.open_.on(log, f"policy-{log.cursor}", WaitKind.POLICY, ref=STORE, detail=detail)


def waits_for_policy(tx: StoreTransaction) -> list[Wait]:
    """The open waits for the policy of the store, if this process could dispatch under it now."""
    found = [one for one in wait.for_ref(tx, STORE) if one.kind == WaitKind.POLICY]
    return found if found and state_in(tx).is_usable else []


async def is_met(runtime: Runtime, asked: Wait) -> bool:
    """Whether a wait for `policy` is over here: the store's can be used, or the process was started with one."""
    if asked.ref != STORE:
        return runtime.policy.is_given
    return (await runtime.active_policy.now(runtime.store.read, younger_than=0)).is_usable
