"""A step whose function is not asynchronous: computed in a thread, and recorded from there.

    loop      gives the function to a thread
    thread    computes, and hands the record to the store
    store     commits; only now is the loop woken, once for both

What cannot be recorded as it is, an error or a large result, comes back to the loop, which knows what to do with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from perdure.errors import LeaseLost, PerdureError, StoreError
from perdure.runtime.definitions.signature import Signature
from perdure.runtime.function_call import Completion, await_value, call, call_in_thread, is_awaitable
from perdure.runtime.run.large_values import LIMIT
from perdure.runtime.run.run import Run
from perdure.store.move import Move


async def compute(
    run: Run,
    function: Callable[..., Any],
    shape: Signature,
    arguments: dict[str, Any],
    record: Callable[[str], Move[int]],
) -> Completion | str:
    """The recorded result as JSON text; or how the function ended, when nothing is recorded."""
    recorded: list[str] = []

    def keep(value: Any, told: asyncio.Future[Any]) -> bool:
        if is_awaitable(value):
            return False
        try:
            text = shape.encode_result(value)
        except PerdureError:
            return False
        if len(text) * 4 > LIMIT:
            return False
        recorded.append(text)
        try:
            run.store.write_for(record(text), told)
        except StoreError:  # the loop meets the same error, and knows what to do with it
            recorded.clear()
            return False
        return True

    try:
        ended = await call_in_thread(function, (), shape.unbind(arguments), keep)
    except (LeaseLost, StoreError) as error:
        raise run.give_up(error) from error
    if recorded:
        return recorded[0]
    if ended.error is None and is_awaitable(ended.value):  # a lambda around something asynchronous
        return await call(await_value, True, None, None, ended.value)
    return ended
