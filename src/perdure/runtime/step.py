"""A step whose function is not asynchronous: computed in a thread, and recorded from there.

    loop      gives the function to a thread
    thread    computes, and hands the record to the store
    store     commits; only now is the loop woken, once for both

What cannot be recorded as it is, an error or a large result, comes back to the loop, which knows what to do with it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from perdure.errors import LeaseLost, PerdureError, StoreError
from perdure.runtime.act import Ended, call, in_thread
from perdure.runtime.run import Run
from perdure.runtime.shape import Shape
from perdure.runtime.values import LIMIT
from perdure.store.move import Move


async def compute(
    run: Run, function: Callable[..., Any], shape: Shape, arguments: dict[str, Any], record: Callable[[str], Move[int]]
) -> Ended | str:
    """The recorded result as JSON text; or how the function ended, when nothing is recorded."""
    recorded: list[str] = []

    def keep(value: Any, told: asyncio.Future[Any]) -> bool:
        if inspect.isawaitable(value):
            return False
        try:
            text = shape.encode_result(value)
        except PerdureError:
            return False
        if len(text) * 4 > LIMIT:
            return False
        recorded.append(text)
        run.store.write_for(record(text), told)
        return True

    try:
        value = await in_thread(function, (), shape.unbind(arguments), keep)
    except (LeaseLost, StoreError) as error:
        if recorded:
            raise run.give_up(error) from error
        return Ended(error=error)
    except BaseException as error:
        if recorded or isinstance(error, asyncio.CancelledError):
            raise
        return Ended(error=error)
    if inspect.isawaitable(value):  # a lambda around something asynchronous
        return await call(_awaited, True, None, None, value)
    return recorded[0] if recorded else Ended(value=value)


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value
