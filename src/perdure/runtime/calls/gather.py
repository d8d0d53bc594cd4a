"""Calls side by side: `await s.gather(s.do(...), s.ask(...), work(s))`.

A call of `s.*` has taken its position when it was made. A coroutine of the program makes its calls later, in an order
that is chance; so each gets a scope with a reserved name, by the number of the gather and its place in it.

All are awaited to their ends. Then the error of the lowest index is raised: the first by time is chance too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any

from perdure.errors import Suspended
from perdure.runtime.awaitable import SessionCall
from perdure.runtime.run.lanes import Scope
from perdure.runtime.run.position import ExecutionLane
from perdure.runtime.run.run import Run


def gather(run: Run, lane: ExecutionLane, work: Sequence[Awaitable[Any]]) -> Coroutine[Any, Any, tuple[Any, ...]]:
    """The results in the order of the arguments. Scopes are reserved now, and entered when it is awaited."""
    foreign = any(not isinstance(one, SessionCall) for one in work)
    number = lane.next_gather() if foreign else 0
    calls: list[Coroutine[Any, Any, Any]] = []
    for index, one in enumerate(work):
        if isinstance(one, SessionCall):
            calls.append(one)
        else:
            calls.append(_in_scope(Scope(run, lane, lane.enter_reserved(f":gather-{number}-{index}")), one))
    return _all(calls)


async def _in_scope(scope: Scope, work: Awaitable[Any]) -> Any:
    async with scope:
        return await work


async def _all(calls: list[Coroutine[Any, Any, Any]]) -> tuple[Any, ...]:
    tasks = [asyncio.ensure_future(one) for one in calls]
    try:
        if tasks:
            await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise
    finally:
        errors = [task.exception() for task in tasks if task.done() and not task.cancelled()]
    if any(isinstance(error, Suspended) for error in errors):
        raise Suspended  # some have not ended: what the others did is on record
    return tuple(task.result() for task in tasks)
