"""Hands: threads for functions that are not asynchronous, kept for the next call."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import threading
import weakref

import pytest

from perdure import Session, program
from perdure.runtime.function_call import Completion, call_in_thread
from tests.forked import fork
from tests.runtime.support.scripted_world import World

pytestmark = pytest.mark.databases("memory")


async def test_one_call_after_another_has_the_same_thread(world: World) -> None:
    def here() -> int:
        return threading.get_native_id()

    @program
    async def twice(s: Session) -> list[int]:
        return [await s.step(name, here) for name in ("one", "two", "three")]

    first, *others = (await world.run(twice.bind())).result
    assert (others, first != threading.get_native_id()) == ([first, first], True)


async def test_a_call_that_never_ends_takes_no_place_from_others() -> None:
    go = threading.Event()
    stuck = [call_in_thread(go.wait, (), {}) for _ in range(100)]
    try:
        assert await asyncio.wait_for(call_in_thread(lambda: "done", (), {}), 120) == Completion("done")
    finally:
        go.set()
    assert await asyncio.gather(*stuck) == [Completion(True)] * 100


async def test_a_thread_keeps_nothing_of_the_call_before() -> None:
    """Neither what it was called with, while nothing else comes, nor its context."""

    class Heavy:
        pass

    said = contextvars.ContextVar("said", default="nothing")
    heavy = Heavy()
    seen = weakref.ref(heavy)

    def first(_: Heavy) -> str:
        said.set("something")
        return said.get()

    assert await call_in_thread(first, (heavy,), {}) == Completion("something")
    del heavy
    while seen() is not None:
        gc.collect()
        await asyncio.sleep(0)
    assert await call_in_thread(said.get, (), {}) == Completion("nothing")


async def test_a_forked_process_has_threads_of_its_own() -> None:
    await call_in_thread(lambda: None, (), {})
    child = fork(lambda: os._exit(asyncio.run(_said())))
    _, status = await asyncio.to_thread(os.waitpid, child, 0)
    assert os.waitstatus_to_exitcode(status) == 7


async def _said() -> int:
    return int((await asyncio.wait_for(call_in_thread(lambda: 7, (), {}), 120)).value)
