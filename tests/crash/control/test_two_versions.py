"""Two versions of Perdure on one store: an older one, built from this repository's history, and this one."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.runtime.deploy.migration import migrate_store
from perdure.store import migrate
from perdure.store.move import StoreTransaction
from perdure.store.moves import event, meta, session
from perdure.store.store import Store, open_store
from perdure.testing import Sink
from perdure.testing.postgres import PostgresServer
from perdure.testing.proxy import wait_until
from tests.crash.control.support.app import KINDS, expected
from tests.crash.control.support.audit import doubled_and_lost
from tests.crash.control.support.old_version import build_old_version, run_old
from tests.crash.control.support.soak import unfinished
from tests.crash.control.support.worker_group import WorkerGroup
from tests.figures import record
from tests.seed import chance

SESSIONS = 24  # half of them are started by the older version
PATIENCE = 120.0
START = """
import sys
from perdure.store.store import Store, open_store
from perdure.store.moves import session
from tests.crash.control.support.app import KINDS
kinds = ("effects", "sleep", "parent", "agent")
with open_store(sys.argv[1]) as store:
    for n in range(int(sys.argv[2]), int(sys.argv[3])):
        bound = KINDS[kinds[n % 4]](n)
        new = session.NewSession(id=f"s-{n}", program=bound.program.name, arguments=bound.arguments)
        store.write_now(session.create(new, by="ada"))
    print(store.database.schema_version)
"""
STARTED = ("effects", "sleep", "parent", "agent")


@pytest.fixture(scope="module")
def old_version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_old_version(tmp_path_factory.mktemp("old"))


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "perdure.db")
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    yield (url := server.create_database())
    server.drop_database(url)


def holders(tx: StoreTransaction) -> set[int]:
    """The process ids of all workers that took a session."""
    found = set()
    for one in session.page(tx, limit=1000):
        for line in event.after(tx, one.uid, 0):
            if line.kind in ("lease.acquired", "lease.taken_over"):
                found.add(int(line.actor.rpartition(":")[2]))
    return found


class SharedStore:
    """A store on which workers of two versions run sessions."""

    def __init__(self, store: Store, old: WorkerGroup, new: WorkerGroup) -> None:
        self._store, self._old, self._new = store, old, new

    def work_under_kills(self, first: int, dice: random.Random) -> int:
        """Start sessions and kill workers until all have ended and both versions took some; returns the next number."""
        deadline, next_kill = time.monotonic() + PATIENCE, time.monotonic() + 0.3
        started = self._start(first, SESSIONS)
        while (left := self._store.read_now(unfinished)) or not self._have_both_worked():
            assert time.monotonic() < deadline, (left, self._new.log_text()[-2000:])
            if not left:
                started = self._start(started, started + first)
            time.sleep(0.1)
            for group in (self._old, self._new):
                group.tend()
            if time.monotonic() >= next_kill:
                dice.choice((self._old, self._new)).kill(dice)
                next_kill = time.monotonic() + dice.uniform(0.2, 0.8)
        return started

    def _start(self, first: int, end: int) -> int:
        for n in range(first, end):
            bound = KINDS[STARTED[n % 4]](n)
            one = session.NewSession(id=f"s-{n}", program=bound.program.name, arguments=bound.arguments)
            self._store.write_now(session.create(one, by="ada"))
        return end

    def _have_both_worked(self) -> bool:
        took = self._store.read_now(holders)
        return bool(took & self._old.started) and bool(took & self._new.started)


@pytest.mark.slow
def test_two_versions_share_a_store_under_kills(
    old_version: Path, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))  # where the locks of workers are
    half, dice = SESSIONS // 2, chance()
    began = time.monotonic()
    made = run_old(old_version, tmp_path, "-c", START, address, "0", str(half))
    assert made.stdout.strip() == "7", made.stderr
    with Sink(tmp_path / "sink") as sink, WorkerGroup(
        tmp_path, address, sink.url, workers=3, package=old_version
    ) as old:  # fmt: skip
        wait_until(lambda: bool(sink.lasting()), "the older version works", patience=PATIENCE)
        done = migrate_store(address)
        assert (done.before, done.after, done.known) == (7, 8, migrate.known())
        assert done.waits_for
        with open_store(address) as store, WorkerGroup(
            tmp_path, address, sink.url, workers=3
        ) as new:  # fmt: skip
            run = SharedStore(store, old, new)
            started = run.work_under_kills(half, dice)
            assert store.read_now(meta.get, "schema_version") == "8"
            kills = old.killed + new.killed
            new.end()
        old.end()
        wanted = [body for n in range(started) for body in expected(STARTED[n % 4], n)]
        doubled, lost = doubled_and_lost(sink.lasting(), wanted)
    assert (doubled, lost) == ([], [])
    finish_and_refuse(address, old_version, tmp_path)
    heads = ("sessions", "seconds", "kills", "doubled", "lost")
    cells = (started, round(time.monotonic() - began, 1), kills, len(doubled), len(lost))
    record("two versions on one store", heads, ("PostgreSQL" if "://" in address else "SQLite", *cells))


def finish_and_refuse(address: str, old_version: Path, home: Path) -> None:
    """The contract step is applied when no older worker is left, and then the older version is refused."""
    done = migrate_store(address)
    assert (done.after, done.waits_for) == (migrate.known(), [])
    refused = run_old(old_version, home, "-m", "perdure", "ls", "--store", address)
    assert refused.returncode == 1
    assert f"has schema {migrate.known()}, which needs Perdure with schema 8; this one has 7" in refused.stderr
