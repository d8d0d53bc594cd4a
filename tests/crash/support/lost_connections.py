"""Tasks of the connection tests: one move through a proxy that loses the connection, and its outcome.

Each returns sentences about what went wrong. They run in a process of their own, so that a bug can be planted there,
with a proxy of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import psycopg

from perdure import faults
from perdure.domain.lease import Holder
from perdure.errors import CommitUnknown, PerdureError, StoreUnavailable
from perdure.ids import encode, new_name
from perdure.store.databases.postgres.database import PostgreSQL
from perdure.store.move import Move
from perdure.store.moves import event, lease, message, session, step
from perdure.store.store import Store
from perdure.testing import ManualClock
from perdure.testing.proxy import Proxy, ProxyMode, wait_until
from perdure.testing.sweep.fork_process import Channel
from tests.crash.support import planted_bugs
from tests.crash.support.verdict import examine

QUICK = "?options=-c%20lock_timeout%3D300ms%20-c%20statement_timeout%3D5s"


class ProxiedSession:
    """A session on PostgreSQL whose holder reaches the server through a proxy."""

    def __init__(
        self, url: str, patience: float, options: str = "", stall_limit: float = 45.0, proxy: type[Any] = Proxy
    ) -> None:
        self.proxy = proxy(url)
        self.proxy.__enter__()
        self.direct = psycopg.connect(url, autocommit=True)
        database = PostgreSQL(
            self.proxy.url + options, clock=ManualClock(), connections=1, patience=patience, stall_limit=stall_limit
        )
        self.store = Store(database, url)
        self.id = new_name("s")
        self.holder = self.begin(self.id)
        self.cursor = self.holder.cursor

    def begin(self, id: str) -> Holder:
        row = self.store.write_now(session.create(session.NewSession(id=id, program="p", arguments={}), by="a"))
        return self.store.write_now(lease.acquire(row.uid, "worker", nonce="n", ttl=10**9))

    def problems(self, answer: Any, right: Any, *, times: int | None = 1) -> list[str]:
        """What differs from the answer; afterwards nothing is cut, and the session continues.

        Without `times` the move may have landed or not, and may land while this looks.
        """
        self.proxy.heal()
        wait_until(lambda: self.others() <= 4, "no statement is landing any more")
        found = [] if answer == right else [f"the answer is {answer!r}, and {right!r} is right"]
        row = self.store.read_now(session.get, self.holder.uid)
        if row.cursor - self.cursor not in ((0, 1) if times is None else (times,)):
            found.append(f"it is there {row.cursor - self.cursor} times, and {times} is right")
        number = self.store.write_now(event.append(self.holder, "note", {"n": 1000}))
        after = (self.cursor + 1, self.cursor + 2) if times is None else (row.cursor + 1,)
        found += [] if number in after else [f"the next event is {number} after {row.cursor}"]
        for sentences in self.store.read_now(examine, self.holder.uid).values():
            found += sentences
        self.store.close()
        self.direct.close()
        self.proxy.__exit__()
        return found

    def heal_when_reconnected(self) -> None:
        """Heal as soon as the client has closed a stalled connection and connects again."""
        before = len(self.proxy._connections)
        wait_until(lambda: len(self.proxy._connections) > before, "the client connects again")
        self.proxy.heal()

    def others(self) -> int:
        question = (
            "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        )
        return int(self.direct.execute(question).fetchall()[0][0])

    def blocked(self) -> bool:
        """Whether a statement waits for a transaction that waits for its client: a commit is under way."""
        question = """
            select count(*) from pg_stat_activity as waiting
            join pg_stat_activity as silent on silent.pid = any(pg_blocking_pids(waiting.pid))
            where silent.datname = current_database() and silent.wait_event = 'ClientRead'
        """
        return bool(self.direct.execute(question).fetchall()[0][0])


Make = Callable[[ProxiedSession], Move[Any]]


def hot_append(proxied: ProxiedSession) -> Move[Any]:
    return event.append(proxied.holder, "note", {"n": 1})


def hot_step(proxied: ProxiedSession) -> Move[Any]:
    named = {"restart_number": 0, "scope": "", "name": "read", "argument_digest": "d" * 64, "occurrence": 0}
    return step.record(proxied.holder, step.NewStep(**named, result=encode(1)))  # type: ignore[arg-type]


def long_use(proxied: ProxiedSession) -> Move[Any]:
    return message.add_usage(proxied.holder, tokens_in=1, tokens_out=0, cost_micros=0)


WORKS: dict[str, tuple[Make, bytes]] = {
    "append": (hot_append, b"with held"),
    "step": (hot_step, b"with held"),
    "use": (long_use, b"COMMIT"),
}


def answer_of(write: Callable[[], Any]) -> Any:
    try:
        return write()
    except PerdureError as error:
        return error.code


def cut(channel: Channel, *, url: str, mode: ProxyMode, work: str, plant: str | None = None) -> list[str]:
    """The connection is cut around the commit. The move is there once, with the answer it would have without a cut."""
    planted_bugs.plant(plant)
    proxied = ProxiedSession(url, patience=60)
    make, match = WORKS[work]
    proxied.proxy.arm(mode, match=match)
    answer = answer_of(lambda: proxied.store.write_now(make(proxied)))
    found = [] if proxied.proxy.fired.is_set() else ["nothing was cut"]
    return found + proxied.problems(answer, None if work == "use" else proxied.cursor + 1)


def late_under_the_lock(channel: Channel, *, url: str, plant: str | None = None) -> list[str]:
    """The client is cut with its COMMIT under way, checks, and must wait for the row until the commit has landed."""
    planted_bugs.plant(plant)
    proxied = ProxiedSession(url, patience=60)
    proxied.proxy.arm("cut_late_commit")

    def heal() -> None:
        proxied.proxy.fired.wait()
        wait_until(proxied.blocked, "the client waits for the row")
        proxied.proxy.heal()

    healer = threading.Thread(target=heal)
    healer.start()
    answer = answer_of(lambda: proxied.store.write_now(long_use(proxied)))
    healer.join()
    return proxied.problems(answer, None)


def late_before_the_retry(channel: Channel, *, url: str, work: str, plant: str | None = None) -> list[str]:
    """The hot statement itself is late: the row is not locked, and it lands after the check and before the retry."""
    planted_bugs.plant(plant)
    proxied = ProxiedSession(url, patience=60)
    make, match = WORKS[work]

    def heal(name: str) -> None:
        if proxied.proxy.fired.is_set() and not proxied.proxy.healed.is_set():
            proxied.proxy.heal()
            moved = "select cursor from session where uid = %s"
            wait_until(
                lambda: proxied.direct.execute(moved, [proxied.holder.uid]).fetchall() == [(proxied.cursor + 1,)],
                "the late statement has landed",
            )

    proxied.proxy.arm("cut_late_commit", match=match)
    faults.arm(heal)
    answer = answer_of(lambda: proxied.store.write_now(make(proxied)))
    faults.disarm()
    return proxied.problems(answer, proxied.cursor + 1)


def late_after_the_retry(channel: Channel, *, url: str, work: str, plant: str | None = None) -> list[str]:
    """The same, but it lands after the retry: it must have no effect then."""
    planted_bugs.plant(plant)
    proxied = ProxiedSession(url, patience=60)
    make, match = WORKS[work]
    proxied.proxy.arm("cut_late_commit", match=match)
    answer = answer_of(lambda: proxied.store.write_now(make(proxied)))
    return proxied.problems(answer, proxied.cursor + 1)


def never_lands(channel: Channel, *, url: str, plant: str | None = None) -> list[str]:
    """The row stays locked by a COMMIT that is under way for longer than the store waits: the outcome is unknown."""
    planted_bugs.plant(plant)
    proxied = ProxiedSession(url, patience=1, options=QUICK)
    proxied.proxy.arm("cut_late_commit")
    answer = answer_of(lambda: proxied.store.write_now(long_use(proxied)))
    return proxied.problems(answer, CommitUnknown.code)


def server_is_gone(channel: Channel, *, url: str, work: str, plant: str | None = None) -> list[str]:
    """The server cannot be reached any more, after a commit was sent or before."""
    planted_bugs.plant(plant)
    proxied = ProxiedSession(url, patience=0.5)
    make, match = WORKS[work]
    proxied.proxy.arm("refuse", match=match)
    found = (
        [] if (code := answer_of(lambda: proxied.store.write_now(make(proxied)))) == CommitUnknown.code else [str(code)]
    )
    code = answer_of(lambda: proxied.store.write_now(make(proxied)))
    found += [] if code == StoreUnavailable.code else [f"before a commit: {code}"]
    return found + proxied.problems(None, None, times=0)


def stalled(channel: Channel, *, url: str, work: str, healed: bool, plant: str | None = None) -> list[str]:
    """Packets are acknowledged and never answered. The client gives up waiting, and resolves the commit if it can."""
    planted_bugs.plant(plant)
    proxied = ProxiedSession(url, patience=30 if healed else 1, options="?connect_timeout=2", stall_limit=0.5)
    make, match = WORKS[work]
    proxied.proxy.arm("stall", match=match)
    if healed:
        healer = threading.Thread(target=proxied.heal_when_reconnected)
        healer.start()
        answer = answer_of(lambda: proxied.store.write_now(make(proxied)))
        healer.join()
        return proxied.problems(answer, None if work == "use" else proxied.cursor + 1)
    answer = answer_of(lambda: proxied.store.write_now(make(proxied)))
    found = [] if answer == CommitUnknown.code else [f"the answer is {answer!r}"]
    return found + proxied.problems(None, None, times=None)


def stalled_read(channel: Channel, *, url: str) -> list[str]:
    proxied = ProxiedSession(url, patience=1, options="?connect_timeout=2", stall_limit=0.5)
    proxied.proxy.arm("stall")
    code = answer_of(lambda: proxied.store.read_now(session.get, proxied.holder.uid))
    return ([] if code == StoreUnavailable.code else [f"the answer is {code!r}"]) + proxied.problems(
        None, None, times=0
    )


def idle_connection_was_lost(channel: Channel, *, url: str, plant: str | None = None) -> list[str]:
    """The server was restarted while the store was idle, and the next move also measures the server's clock."""
    planted_bugs.plant(plant)
    proxied = ProxiedSession(url, patience=5)
    proxied.proxy.arm("refuse")
    proxied.proxy.heal()
    proxied.store.database.server_clock.measure_after = 0  # type: ignore[attr-defined]
    answer = answer_of(lambda: proxied.store.write_now(hot_append(proxied)))
    return proxied.problems(answer, proxied.cursor + 1)
