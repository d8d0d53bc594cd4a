"""Tasks of a process group: each function runs in a process of its own, on a store that it opens itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from perdure.clock import SECOND
from perdure.domain.lease import Holder
from perdure.domain.session import Status
from perdure.errors import Conflict, LeaseHeld, LeaseLost
from perdure.ids import new_uid
from perdure.store.move import Move
from perdure.store.moves import event, fact, inbox, lease, rate_limit, session
from perdure.store.moves.claim import ClaimRequest, claim
from perdure.store.store import Store, open_store
from perdure.testing.proxy import wait_until
from tests.store.support.linearizability import Kind, Operation
from tests.store.support.process_group import Ready

LONG, SHORT = 60 * SECOND, SECOND // 50


def send_messages(ready: Ready, target: str, uid: str, who: str, count: int) -> list[int]:
    """Send own messages, and some that all processes send; returns their sequence numbers."""
    with open_store(target, connections=2) as store:
        ready()
        places = [store.write_now(inbox.receive(uid, who, f"{who}-{n}", {"n": n})).sequence for n in range(count)]
        shared = [store.write_now(inbox.receive(uid, "all", f"all-{n}", {"n": n})).sequence for n in range(3)]
    return places + shared


def count_up(ready: Ready, target: str, uid: str, who: str, count: int) -> int:
    """Raise a shared number, each time as of the version that was read; returns how often that came too late."""
    with open_store(target, connections=2) as store:
        ready()
        late = 0
        for _ in range(count):
            while True:
                known = store.read_now(fact.get, "shared", "number")
                value, version = (known.value, known.version) if known else (0, 0)
                try:
                    store.write_now(fact.remember(uid, who, "shared", "number", value + 1, expected=version))
                    break
                except Conflict:
                    late += 1
    return late


def commit_many(ready: Ready, target: str, uid: str, who: str, count: int) -> list[int]:
    """Commit without a pause; returns when each commit was answered."""
    with open_store(target) as store:
        ready()
        times = []
        for number in range(count):
            store.write_now(inbox.receive(uid, who, f"{who}-{number}", None))
            times.append(time.monotonic_ns())
    return times


def contend(ready: Ready, target: str, uid: str, who: str, rounds: int) -> list[Operation]:
    """Acquire, append, renew, and give back or overstay; returns all operations and their outcomes."""
    with open_store(target, connections=2) as store:
        contender = Contender(store, uid, who)
        ready()
        for number in range(rounds):
            contender.take_a_turn(overstay=number % 3 == 2)
    return contender.history


class Contender:
    """One process that wants the lease, and keeps a diary."""

    def __init__(self, store: Store, uid: str, who: str) -> None:
        self.store, self.uid, self.who = store, uid, who
        self.history: list[Operation] = []

    def take_a_turn(self, *, overstay: bool) -> None:
        holder: Holder | None = None
        while holder is None:
            holder = self._acquire(SHORT if overstay else LONG)
            if holder is None:
                self._let_pass(SHORT // 4)
        self._show(holder, Kind.APPEND, lambda: event.append(holder, "note", {"by": self.who}))
        if overstay:
            self._let_pass(2 * SHORT)
        else:
            self._show(holder, Kind.RENEW, lambda: lease.renew(holder, LONG))
        self._show(holder, Kind.APPEND, lambda: event.append(holder, "note", {"by": self.who}))
        self._show(holder, Kind.RELEASE, lambda: session.release(holder))

    def _let_pass(self, microseconds: int) -> None:
        until = self.store.clock.now() + microseconds
        wait_until(lambda: self.store.clock.now() > until, "some time has passed")

    def _acquire(self, ttl: int) -> Holder | None:
        called = time.monotonic_ns()
        try:
            holder = self.store.write_now(lease.acquire(self.uid, self.who, nonce=new_uid(), ttl=ttl))
        except LeaseHeld:
            self._note(Kind.ACQUIRE, None, None, called, refused=True)
            return None
        self._note(Kind.ACQUIRE, holder.epoch, holder.cursor, called)
        return holder

    def _show(self, holder: Holder, kind: Kind, make: Callable[[], Move[Any]]) -> None:
        called = time.monotonic_ns()
        try:
            self.store.write_now(make())
        except LeaseLost:
            self._note(kind, holder.epoch, None, called, refused=True)
        else:
            self._note(kind, holder.epoch, None if kind is Kind.RENEW else holder.cursor, called)

    def _note(self, kind: Kind, epoch: int | None, number: int | None, called: int, *, refused: bool = False) -> None:
        self.history.append(Operation(self.who, kind, epoch, number, called, time.monotonic_ns(), refused))


def reserve_requests(ready: Ready, target: str, names: tuple[str, ...], count: int) -> list[int]:
    """Reserve requests of a model; returns when each of them may be sent."""
    with open_store(target, connections=2) as store:
        ready()
        return [store.write_now(rate_limit.reserve(names, 0)).at for _ in range(count)]


def run_claimed(ready: Ready, target: str, log: str, who: str) -> int:
    """Claim sessions until none is left, and note in a file that each begins and ends; returns how many were run."""
    done = 0
    with open_store(target, connections=2) as store, open(log, "ab", buffering=0) as file:
        ready()
        quiet = 0
        while quiet < 20:
            asked = ClaimRequest(worker=who, nonce=new_uid(), programs=frozenset({"review"}), limit=3, ttl=LONG)
            claimed = store.write_now(claim(asked))
            quiet = 0 if claimed.holders else quiet + 1
            file.writelines(f"begin {holder.uid}\n".encode() for holder in claimed.holders)
            time.sleep(0.002)
            for holder in claimed.holders:
                file.write(f"end {holder.uid}\n".encode())
                store.write_now(session.finish(holder, Status.DONE))
                done += 1
    return done
