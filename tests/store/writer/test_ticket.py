"""Answers to coroutines of many event loops, one after another."""

import asyncio
import os

import pytest

from perdure.store.moves import session
from perdure.store.store import Store
from tests.store.support.sessions import a_session

ONE = pytest.mark.databases("memory")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@ONE
def test_closed_event_loops_keep_no_descriptors(store: Store) -> None:
    """Also where something still refers to the loops."""
    loops: list[asyncio.AbstractEventLoop] = []
    uid = a_session(store).uid

    async def read() -> str:
        loops.append(asyncio.get_running_loop())
        return (await store.read(session.get, uid)).uid

    assert asyncio.run(read()) == uid
    before = descriptors()
    for _ in range(20):
        assert asyncio.run(read()) == uid
    assert descriptors() <= before + 1


@ONE
def test_an_event_loop_is_answered_after_another_was_closed(store: Store) -> None:
    uid = a_session(store).uid
    first, second = asyncio.new_event_loop(), asyncio.new_event_loop()
    try:
        assert first.run_until_complete(store.read(session.get, uid)).uid == uid
        first.close()
        assert second.run_until_complete(store.read(session.get, uid)).uid == uid
        assert second.run_until_complete(store.read(session.get, uid)).uid == uid
    finally:
        first.close()
        second.close()
