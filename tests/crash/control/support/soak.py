"""The control soak: many sessions, several workers, random deaths. Afterwards everything is judged from outside."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from perdure.domain.session import Status
from perdure.domain.wait import WaitKind
from perdure.errors import PerdureError
from perdure.store.moves import session, wait
from perdure.store.moves.queue import set_limits
from perdure.store.store import Store, open_store
from perdure.testing import Sink
from perdure.testing.postgres import PostgresServer
from tests.crash.control.support.app import KINDS, expected
from tests.crash.control.support.audit import QueueLimits, Verdict, doubled_and_lost, lease_events, over_limits
from tests.crash.control.support.fleet import Fleet

LIMITS = {"narrow": QueueLimits(concurrency=2), "keyed": QueueLimits(concurrency=4, per_key=1)}
QUEUES = ("default", "keyed", "narrow", "default", "keyed", "default", "keyed", "default", "default", "default")
PERSON = "ada"


class Soak:
    """One soak on one store."""

    def __init__(
        self, folder: Path, target: str, *, workers: int, sessions: int, lease: float, chance: random.Random,
        server: PostgresServer | None = None,
    ) -> None:  # fmt: skip
        self._folder, self._target, self._server = folder, target, server
        self._workers, self._sessions, self._lease = workers, sessions, lease
        self._chance = chance
        self._person: Counter[str] = Counter()

    def run(self, *, patience: float, pause: float, rounds: int = 1_000_000) -> Verdict:
        """Start the sessions and the workers. Every `pause` seconds something dies, until all sessions have ended.

        In a round, everything that can die does so.
        """
        with Sink(self._folder / "sink") as sink, open_store(self._target) as store:
            wanted = self._start(store)
            fleet = Fleet(self._folder, self._target, sink.url, workers=self._workers, lease=self._lease)
            with fleet:
                began = time.monotonic()
                stuck = self._let_die(store, fleet, began + patience, pause, rounds)
                seconds, orphans = time.monotonic() - began, fleet.end()
                if stuck:
                    orphans += [f"(the log of the workers ends with) {fleet.log_text()[-3000:]}"]
            over, most = over_limits(store.read_now(lease_events, store.database.dialect), LIMITS)
            doubled, lost = doubled_and_lost(sink.lasting(), wanted)
        return Verdict(
            sessions=self._sessions, workers=self._workers, seconds=round(seconds, 1), deaths=dict(fleet.deaths),
            doubled=doubled, lost=lost, stuck=stuck, over=over, orphans=orphans, most=most, person=dict(self._person),
        )  # fmt: skip

    def _start(self, store: Store) -> list[dict[str, int]]:
        for name, limits in LIMITS.items():
            store.write_now(set_limits(name, PERSON, **limits._asdict()))
        wanted = []
        for n in range(self._sessions):
            kind, queue = list(KINDS)[n % len(KINDS)], QUEUES[n // len(KINDS) % len(QUEUES)]
            bound = KINDS[kind](n)
            new = session.NewSession(
                id=f"{kind}-{n}", program=bound.program.name, arguments=bound.arguments, queue=queue,
                concurrency_key=f"k-{n % 7}" if queue == "keyed" else None, owner=f"o-{n % 3}",
            )  # fmt: skip
            store.write_now(session.create(new, by=PERSON))
            wanted += expected(kind, n)
        return wanted

    def _let_die(self, store: Store, fleet: Fleet, deadline: float, pause: float, rounds: int) -> list[str]:
        """Let something die again and again; returns the sessions that have not ended at the deadline."""
        left, deaths = ["?"], list[Callable[[], None]]()
        next_death = time.monotonic() + pause
        while time.monotonic() < deadline:
            time.sleep(0.1)
            fleet.tend()
            try:
                left = store.read_now(unfinished)
                self._act_as_person(store)
            except (PerdureError, psycopg.Error):
                continue
            if not left:
                return []
            if time.monotonic() >= next_death and (deaths or rounds):
                next_death = time.monotonic() + self._chance.uniform(0.5, 1.5) * pause
                if not deaths:
                    deaths, rounds = self._deaths(fleet), rounds - 1
                deaths.pop()()
        return left

    def _deaths(self, fleet: Fleet) -> list[Callable[[], None]]:
        """Every kind of death, in an order by chance; workers die more often than what they depend on."""
        kill, stop = (lambda: fleet.kill_worker(self._chance)), (lambda: fleet.stop_worker(self._chance))
        found: list[Callable[[], None]] = [kill, kill, kill, stop, stop, fleet.kill_supervisor]
        if self._server is not None:
            found += [lambda: self._restart_server(fleet), lambda: self._cut_connections(fleet)]
        self._chance.shuffle(found)
        return found

    def _restart_server(self, fleet: Fleet) -> None:
        assert self._server is not None
        self._server.restart()
        fleet.deaths["database servers killed"] += 1

    def _cut_connections(self, fleet: Fleet) -> None:
        with psycopg.connect(self._target, autocommit=True) as db:
            cut = db.execute(
                "select count(pg_terminate_backend(pid)) from pg_stat_activity"
                " where application_name = 'perdure' and datname = current_database() and random() < 0.5"
            ).fetchone()
        fleet.deaths["connections cut"] += 0 if cut is None else int(cut[0])

    def _act_as_person(self, store: Store) -> None:
        """Answer every question, and release sessions that lost their workers too often."""
        for asked in store.read_now(wait.open_waits, kind=WaitKind.INPUT):
            store.write_now(wait.resolve(asked.session_uid, PERSON, asked.id, "yes"))
            self._person["answers"] += 1
        for held in store.read_now(wait.open_waits, kind=WaitKind.QUARANTINE):
            store.write_now(wait.resolve(held.session_uid, PERSON, held.id, None))
            self._person["releases from quarantine"] += 1


def unfinished(tx: Any) -> list[str]:
    """The sessions that are not done, with what they wait for."""
    if set(session.count(tx)) <= {"done"}:
        return []
    found = [row for status in Status if status != "done" for row in session.page(tx, status=status, limit=20)]
    return [f"{row.id} is {row.status} {[one.kind for one in wait.open_of_session(tx, row.uid)]}" for row in found]
