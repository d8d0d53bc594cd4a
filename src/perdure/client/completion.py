"""How a client waits for a session: by its events, and by reading it again after each that may have changed it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from perdure.domain.session import TERMINAL, Status
from perdure.domain.wait import Wait, WaitKind
from perdure.runtime.queries import SessionView
from perdure.runtime.runtime import Runtime

ALONE = frozenset({WaitKind.TIMER, WaitKind.EFFECT, WaitKind.LEASE, WaitKind.SLOT})  # they end without a person
CHANGES = ("session.", "wait.", "lease.", "effect.doubted")  # kinds of events after which a status may be another
LOOK = 5.0  # seconds until a session is read again without an event: its children have logs of their own

IsReached = Callable[[Runtime, SessionView], Awaitable[bool]]


async def wait_until(runtime: Runtime, name: str, is_reached: IsReached) -> SessionView:
    """The session when it is in the state that is waited for."""
    view = await runtime.get(name)
    while not await is_reached(runtime, view):
        try:
            async with asyncio.timeout(LOOK):
                async for event in runtime.events(view.uid, after=view.cursor, follow=True):
                    if event.kind.startswith(CHANGES):
                        break
        except TimeoutError:
            pass
        view = await runtime.get(view.uid)
    return view


async def is_over(_: Runtime, view: SessionView) -> bool:
    return view.status in TERMINAL


async def rests(_: Runtime, view: SessionView) -> bool:
    """Whether it has ended or waits; one that waits for a slot of its queue is about to run."""
    is_kept_out = any(one.kind == WaitKind.SLOT for one in view.waits)
    return view.status in TERMINAL or (view.status == Status.WAITING and not is_kept_out)


async def needs_nothing_else(runtime: Runtime, view: SessionView) -> bool:
    """Whether it has ended, or only a person can continue it."""
    if view.status in TERMINAL:
        return True
    if view.status != Status.WAITING:
        return False
    return not any([await _ends_alone(runtime, one) for one in view.waits])


async def _ends_alone(runtime: Runtime, one: Wait) -> bool:
    """Whether a wait ends without a person."""
    if one.kind in ALONE or one.due_at is not None:
        return True
    if one.kind == WaitKind.CHILD and one.ref is not None:
        child = await runtime.get(one.ref)
        return child.status in TERMINAL or not await needs_nothing_else(runtime, child)
    return False
