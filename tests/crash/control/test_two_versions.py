"""An upgrade of a store in use: from an older Perdure, built from this repository's history, to this one."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.errors import IllegalMove
from perdure.runtime.deploy.migration import migrate_store
from perdure.store import migrate
from perdure.store.moves import session
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


class UpgradedStore:
    """A store on which workers of an older version run sessions, and later those of this one."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def start(self, first: int, end: int) -> None:
        for n in range(first, end):
            bound = KINDS[STARTED[n % 4]](n)
            one = session.NewSession(id=f"s-{n}", program=bound.program.name, arguments=bound.arguments)
            self._store.write_now(session.create(one, by="ada"))

    def finish_under_kills(self, group: WorkerGroup, dice: random.Random) -> None:
        """Kill workers until every session has ended."""
        deadline, next_kill = time.monotonic() + PATIENCE, time.monotonic() + 0.3
        while (left := self._store.read_now(unfinished)) or not group.killed:
            assert time.monotonic() < deadline, (left, group.log_text()[-2000:])
            time.sleep(0.1)
            group.tend()
            if time.monotonic() >= next_kill:
                group.kill(dice)
                next_kill = time.monotonic() + dice.uniform(0.2, 0.8)


@pytest.mark.slow
def test_an_upgrade_under_kills_loses_and_doubles_nothing(
    old_version: Path, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers of the older version hold the upgrade back while they run, and their sessions continue on this one."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))  # where the locks of workers are
    half, dice = SESSIONS // 2, chance()
    began = time.monotonic()
    made = run_old(old_version, tmp_path, "-c", START, address, "0", str(half))
    assert made.stdout.strip() == "7", made.stderr
    with Sink(tmp_path / "sink") as sink:
        with WorkerGroup(tmp_path, address, sink.url, workers=3, package=old_version) as old:
            wait_until(lambda: bool(sink.lasting()), "the older version works", patience=PATIENCE)
            for before in (7, 8):
                with pytest.raises(IllegalMove, match=f"from version {before} to 8 only"):
                    migrate_store(address)
            seen = len(sink.lasting())
            made = run_old(old_version, tmp_path, "-c", START, address, str(half), str(half + 4))
            assert made.stdout.strip() == "8", made.stderr
            wait_until(lambda: len(sink.lasting()) > seen, "the older version still works", patience=PATIENCE)
            old.kill(dice)
        finish_and_refuse(address, old_version, tmp_path)
        with open_store(address) as store, WorkerGroup(tmp_path, address, sink.url, workers=3) as new:
            run = UpgradedStore(store)
            run.start(half + 4, SESSIONS)
            run.finish_under_kills(new, dice)
            kills = old.killed + new.killed
            new.end()
        wanted = [body for n in range(SESSIONS) for body in expected(STARTED[n % 4], n)]
        doubled, lost = doubled_and_lost(sink.lasting(), wanted)
    assert (doubled, lost) == ([], [])
    heads = ("sessions", "seconds", "kills", "doubled", "lost")
    cells = (SESSIONS, round(time.monotonic() - began, 1), kills, len(doubled), len(lost))
    record("an upgrade under kills", heads, ("PostgreSQL" if "://" in address else "SQLite", *cells))


def finish_and_refuse(address: str, old_version: Path, home: Path) -> None:
    """The rest is applied when no older worker is left, and then the older version is refused."""
    done = migrate_store(address)
    assert (done.after, done.waits_for) == (migrate.known(), [])
    refused = run_old(old_version, home, "-m", "perdure", "ls", "--store", address)
    assert refused.returncode == 1
    assert f"has schema {migrate.known()}, which needs Perdure with schema 10; this one has 7" in refused.stderr
