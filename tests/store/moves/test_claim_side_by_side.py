"""Two claims at the same time on PostgreSQL, where a transaction does not see what another has not committed yet."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from perdure.domain.wait import WaitKind
from perdure.store.moves import queue, wait
from perdure.store.moves.claim import Claim, ClaimRequest, claim
from perdure.store.store import Store, open_store
from perdure.testing.proxy import wait_until
from tests.store.support.locks import is_waited_for
from tests.store.support.sessions import TTL, a_session

LIMIT = 90  # seconds
POSTGRES = pytest.mark.databases("postgres")


def request(worker: str, limit: int = 2) -> ClaimRequest:
    programs = frozenset({"review"})
    return ClaimRequest(worker=worker, nonce=f"nonce-{worker}", programs=programs, limit=limit, ttl=TTL)


class OpenClaim(threading.Thread):
    """A claim in a thread of its own; with `hold` its transaction stays open after everything is written."""

    def __init__(self, store: Store, worker: str, hold: threading.Event | None = None) -> None:
        super().__init__(daemon=True)
        self._store, self._hold = store, hold
        self._target = store.target
        self.is_written = threading.Event()
        self._process = 0  # of the server
        self._move = claim(request(worker))
        self._run = self._move.run
        self._move.run = self._write_and_wait
        self.result: Claim | None = None

    def _write_and_wait(self, tx: Any) -> Claim:
        found = self._run(tx)
        ((self._process,),) = tx.execute("select pg_backend_pid()", [])  # sends what waits to be written
        self.is_written.set()
        while self._hold is not None and not self._hold.wait(1.0):
            tx.one("session.get", uid="none")  # the server ends a transaction that is idle for long
        return found

    def run(self) -> None:
        self.result = self._store.write_now(self._move)

    def blocks_another(self) -> bool:
        """Whether another transaction waits for this one."""
        return is_waited_for(self._target, self._process)

    @property
    def uids(self) -> set[str]:
        self.join(LIMIT)
        assert self.result is not None
        return {holder.uid for holder in self.result.holders}


@contextmanager
def first_claim(store: Store, target: str) -> Iterator[tuple[OpenClaim, Store, threading.Event]]:
    """A claim that has taken sessions and is not committed yet, and a store of another process."""
    release = threading.Event()
    with open_store(target) as other:
        first = OpenClaim(store, "w-1", release)
        first.start()
        assert first.is_written.wait(LIMIT)
        try:
            yield first, other, release
        finally:
            release.set()
            first.join(LIMIT)


@POSTGRES
def test_second_claim_skips_what_the_first_has_not_committed(store: Store, target: str) -> None:
    made = {a_session(store).uid for _ in range(4)}
    with first_claim(store, target) as (first, other, release):
        second = OpenClaim(other, "w-2")
        second.start()
        wait_until(lambda: not second.is_alive() or first.blocks_another(), "the second claim has ended", LIMIT)
        assert not first.blocks_another()
        assert (len(second.uids), first.result) == (2, None)
        release.set()
        assert (first.uids | second.uids, first.uids & second.uids) == (made, set())


@POSTGRES
def test_second_claim_counts_what_the_first_took_of_a_limit(store: Store, target: str) -> None:
    for _ in range(4):
        a_session(store)
    store.write_now(queue.set_limits("default", "ada", concurrency=2))
    with first_claim(store, target) as (first, other, release):
        second = OpenClaim(other, "w-2")
        second.start()
        wait_until(lambda: not second.is_alive() or first.blocks_another(), "the second claim waits", LIMIT)
        assert first.blocks_another()
        release.set()
        assert (len(first.uids), second.uids) == (2, set())


@pytest.mark.databases("sqlite", "postgres")
def test_session_that_waits_holds_no_slot_of_its_queue(store: Store) -> None:
    """A parent and its child in a queue of one: the parent waits, so the child may run."""
    a_session(store, "parent")
    store.write_now(queue.set_limits("default", "ada", concurrency=1))
    (parent,) = store.write_now(claim(request("w-1"))).holders
    a_session(store, "child")
    assert store.write_now(claim(request("w-2"))).holders == ()
    store.write_now(wait.open_(parent, "w", WaitKind.INPUT))
    store.write_now(wait.park(parent, ["w"]))
    assert len(store.write_now(claim(request("w-3"))).holders) == 1
