"""Streams while the store does not answer whether their callers still may read them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from perdure.server.stream.response import HEARTBEAT
from perdure.store.move import StoreTransaction
from perdure.store.moves import session as sessions
from perdure.store.store import Store
from tests.server.support.service import PATIENCE, Service
from tests.server.test_session_operations import start
from tests.server.test_streams import STREAM, messages

pytestmark = pytest.mark.databases("sqlite")
READERS = 8  # more than the store has
SIGNS = 20  # of life, each later than a look at the caller


@contextmanager
def held_reads(store: Store) -> Iterator[None]:
    """No read of the store is answered inside the block; writes are."""
    go_on, held = threading.Event(), threading.Semaphore(0)

    def hold(_tx: StoreTransaction) -> None:
        held.release()
        assert go_on.wait(PATIENCE)

    with ThreadPoolExecutor(READERS) as pool:
        holding = [pool.submit(store.read_now, hold) for _ in range(READERS)]
        try:
            assert held.acquire(timeout=PATIENCE)
            assert held.acquire(timeout=PATIENCE)  # both of its readers
            yield
        finally:
            go_on.set()
    for one in holding:
        one.result()


def test_a_slow_store_delays_a_stream_and_does_not_end_it(store: Store) -> None:
    service = Service(store, recheck=0.05, heartbeat=0.1)
    try:
        owner = service.client("olga")
        start(owner, "service_inbox", "m", arguments={"label": "x"})
        session = store.read_now(sessions.find, "m")
        with owner.stream("GET", "/v1/sessions/m/events", headers=STREAM) as answer:
            lines = answer.iter_lines()
            assert next(line for line in lines if line.startswith("id: ")) == "id: 1"
            with held_reads(store):
                store.write_now(sessions.describe(session.uid, "ada", expected=session.version, title="new"))
                assert until_signs(lines) == []
            assert f"id: {session.cursor + 1}" in lines  # and none of them was the end
    finally:
        service.close()


def until_signs(lines: Iterator[str]) -> list[str]:
    """The names of events that came, such as `closed`, until so many signs of life did."""
    found, signs = list[str](), 0
    while signs < SIGNS:
        line = next(lines)
        if line == HEARTBEAT.decode().strip():
            signs += 1
        elif line.startswith("event: "):
            found.append(line)
    return found


def test_a_store_that_does_not_answer_ends_a_stream(store: Store) -> None:
    service = Service(store, recheck=0.05, store_answer=0.2)
    try:
        owner = service.client("olga")
        start(owner, "service_inbox", "m", arguments={"label": "x"})
        with owner.stream("GET", "/v1/sessions/m/events", headers=STREAM) as answer:
            with held_reads(store):
                assert list(messages(answer))[-1] == {"event": "closed", "data": {"reason": "unavailable"}}
    finally:
        service.close()
