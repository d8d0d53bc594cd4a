"""Lineage: branches and the effects of the sessions that they were forked from.

A branch inherits what was settled at its fork and cannot repeat it. What was unsettled there belongs to the session
that planned it, and the branch waits for its outcome, or for that of its successor: an undone effect has one. Waking a
branch is only a convenience: a branch that was not woken finds the outcome when it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from perdure.domain.effect import SETTLED, Effect, EffectState, attempts_allowed
from perdure.domain.session import TERMINAL
from perdure.domain.wait import Wait, WaitKind
from perdure.errors import Conflict, NotFound, PerdureError
from perdure.runtime.definitions.tool import TOOLS
from perdure.store.move import StoreTransaction
from perdure.store.moves import effect as effects
from perdure.store.moves import session as sessions
from perdure.store.moves import wait
from perdure.store.moves.session_end import CANCELLED
from perdure.store.store import Store

if TYPE_CHECKING:
    from perdure.runtime.run.position import ExecutionLane
    from perdure.runtime.run.run import Run


def expects_successor(effect: Effect, retry: int) -> bool:
    """Whether it was undone because its outcome was unknown, and not on request; `retry` limits the generations.

    An effect that was undone because of a restore always has a successor: it is unknown whether it existed. The
    successor of the last of those begins at a multiple of `retry`, and has as many generations as any other.
    """
    unwanted = effect.result is None and effect.artifact is None
    more = effect.restore_epoch is not None or (effect.generation + 1) % attempts_allowed(effect, retry) != 0
    return effect.state == EffectState.COMPENSATED and unwanted and more


def is_open(tx: StoreTransaction, effect: Effect) -> bool:
    """Whether the session that planned an effect may still change its outcome for the branches that wait."""
    if effect.state not in SETTLED:
        return True
    tool = TOOLS.get(effect.tool)
    if not expects_successor(effect, tool.retry if tool else effect.retry or 1):
        return False
    return sessions.get(tx, effect.session_uid).status not in TERMINAL


def newest(tx: StoreTransaction, effect: Effect) -> tuple[Effect, bool]:
    """The newest successor of an effect, and whether that is still open."""
    now = effects.get(tx, effect.session_uid, effect.id)
    while now.state == EffectState.SUPERSEDED and (after := effects.successor(tx, now.session_uid, now.id)):
        now = after
    return now, is_open(tx, now)


def was_cancelled(effect: Effect) -> bool:
    """Whether it was refused only because its session was cancelled: a branch may plan its own."""
    return effect.state == EffectState.REFUSED and (effect.error or {}).get("code") == CANCELLED


async def inherited(run: Run, effect: Effect, lane: ExecutionLane | None = None) -> Effect | None:
    """The outcome of an effect of the lineage, which the session that planned it settles. None: it never happened, and
    this session plans its own."""
    now, is_still_open = await run.read(newest, effect)
    while is_still_open:
        asked = await run.write(wait.open_for_effect(run.holder, now.id))
        now, is_still_open = await run.read(newest, effect)
        if is_still_open:
            await run.wait_for(asked.id, lane)
            now, is_still_open = await run.read(newest, effect)
    return None if was_cancelled(now) else now


async def wake_branches(store: Store, effect: Effect, by: str) -> None:
    """Wake branches that wait for this effect, or for one that it succeeds."""
    await wake_branches_of_all(store, [effect], by)


async def wake_branches_of_all(store: Store, settled: Sequence[Effect], by: str) -> None:
    """The same for several effects of one session."""
    with suppress(PerdureError):  # the store is not available now
        for effect, waiting in await store.read(_waiting_for_any, settled):
            with suppress(PerdureError):  # another process was first
                await store.write(wait.resolve(waiting.session_uid, by, waiting.id, effect.state))


async def wake_branches_of_session(store: Store, uid: str, by: str) -> None:
    """Wake branches that wait for an effect of a session that has ended: an effect that was only planned is refused."""
    with suppress(PerdureError):  # the store is not available now
        if settled := await store.read(_of_forked, uid):
            await wake_branches_of_all(store, settled, by)


async def wake_stale_branches(store: Store, by: str) -> None:
    """Wake branches whose effect is settled: the process that settled it may have died before it woke them."""
    with suppress(PerdureError):
        for effect, waiting in await store.read(_left_behind):
            with suppress(PerdureError):  # another process was first
                await store.write(wait.resolve(waiting.session_uid, by, waiting.id, effect.state))


def _left_behind(tx: StoreTransaction) -> list[tuple[Effect, Wait]]:
    found = []
    for one in wait.for_settled_effects(tx):
        with suppress(NotFound, Conflict):
            effect, is_unsettled = newest(tx, effects.find(tx, one.ref or ""))
            if not is_unsettled:
                found.append((effect, one))
    return found


def _of_forked(tx: StoreTransaction, uid: str) -> list[Effect]:
    return effects.of_session(tx, uid) if wait.has_branches(tx, uid) else []


def _waiting_for_any(tx: StoreTransaction, settled: Sequence[Effect]) -> list[tuple[Effect, Wait]]:
    if not wait.has_branches(tx, settled[0].session_uid):
        return []
    return [(effect, one) for effect in settled for one in _waiting_for(tx, effect)]


def _waiting_for(tx: StoreTransaction, effect: Effect) -> list[Wait]:
    found: list[Wait] = []
    if is_open(tx, effect):
        return found
    line: Effect | None = effect
    while line is not None:
        found += [one for one in wait.for_ref(tx, line.id) if one.kind == WaitKind.EFFECT]
        line = effects.get_or_none(tx, line.session_uid, line.supersedes) if line.supersedes else None
    return found
