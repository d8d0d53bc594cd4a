"""One `store` fixture, every database behind it.

`store` is open and empty, and its `clock` does not advance by itself. `target` is its address, for tests that open it
themselves or in another process. A test that uses either runs on all of `DATABASES`;
`@pytest.mark.databases("sqlite", "postgres")` selects fewer, and these two can be opened by several processes.
PostgreSQL starts when the first test needs it; if it cannot, that test fails.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import settings

from perdure import faults
from perdure.runtime.telemetry import hook
from perdure.secrets.redaction import KNOWN, KnownSecrets
from perdure.store.store import Store, open_store
from perdure.testing import ManualClock
from perdure.testing.postgres import PostgresServer
from tests.memory import MEMORY

KEPT = ("meta", "policy_fence", "feed_end", "search_position")  # tables that have rows in an empty store
DATABASES = ("sqlite", "memory", "files", "postgres")

settings.register_profile("perdure", deadline=None, max_examples=1000 if "PERDURE_SOAK" in os.environ else 40)
settings.load_profile("perdure")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "databases(*names): run only on these, and not on every database")
    if "XDG_DATA_HOME" not in os.environ:  # tests leave nothing in a developer's own folder
        home = TemporaryDirectory(prefix="perdure-test-", dir=MEMORY)
        os.environ["XDG_DATA_HOME"] = home.name
        config.add_cleanup(home.cleanup)
    _reset_signals()


def _reset_signals() -> None:
    """Reset signals in this process and its children, also if the suite runs in the background or with nohup."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGCHLD):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "target" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("databases")
    names = marker.args if marker else DATABASES
    marks = {"postgres": [pytest.mark.postgres]}
    if "sqlite" in names:  # if the test runs on SQLite, `make quick` omits the others
        marks |= {"memory": [pytest.mark.beside], "files": [pytest.mark.beside]}
    metafunc.parametrize("target", [pytest.param(name, marks=marks.get(name, ())) for name in names], indirect=True)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for one test; unlike `tmp_path`, in memory if there is space."""
    with TemporaryDirectory(prefix="perdure-test-", dir=MEMORY) as name:
        yield Path(name)


@pytest.fixture(scope="session")
def empty_file() -> Iterator[Path]:
    """An empty SQLite store to copy, which is five times faster than creating one."""
    with TemporaryDirectory(prefix="perdure-test-", dir=MEMORY) as name:
        open_store(path := Path(name, "perdure.db")).close()
        yield path


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with PostgresServer(MEMORY) as server:
        yield server


@pytest.fixture(scope="session")
def scratch(postgres_server: PostgresServer) -> Iterator[Scratch]:
    scratch = Scratch(postgres_server)
    yield scratch
    scratch.close()


@pytest.fixture
def target(request: pytest.FixtureRequest, folder: Path) -> str:
    """The address of an empty store on the database of this test."""
    if request.param == "postgres":
        scratch: Scratch = request.getfixturevalue("scratch")
        scratch.empty()
        return scratch.url
    if request.param == "sqlite":
        return str(shutil.copy(request.getfixturevalue("empty_file"), folder))
    return {"memory": "memory:", "files": f"files:{folder / 'files'}"}[request.param]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(request: pytest.FixtureRequest, target: str, clock: ManualClock) -> Iterator[Store]:
    if target.startswith("postgresql:"):
        yield request.getfixturevalue("scratch").store(clock)
        return
    with open_store(target, clock=clock) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _disarm_fault_points() -> Iterator[None]:
    yield
    faults.disarm()


@pytest.fixture(autouse=True)
def _stop_telemetry() -> Iterator[None]:
    yield
    hook.install(None)


@pytest.fixture(autouse=True)
def _forget_secrets() -> Iterator[None]:
    """A secret that a test made known is not replaced in the next one."""
    make = logging.getLogRecordFactory()
    yield
    vars(KNOWN).update(vars(KnownSecrets()))
    logging.setLogRecordFactory(make)


class Scratch:
    """One PostgreSQL database and one store on it. Emptying them takes 5 ms, creating them up to 200."""

    def __init__(self, server: PostgresServer) -> None:
        import psycopg

        self.url = server.create_database("scratch")
        self._store = open_store(self.url)
        self._db: psycopg.Connection[tuple[Any, ...]] = psycopg.connect(self.url, autocommit=True)
        self._kept = {name: self._db.execute(f"select * from {name}".encode()).fetchall() for name in KEPT}
        names = self._db.execute("select tablename from pg_tables where schemaname = 'public'").fetchall()
        self._tables = [name for (name,) in names if name not in ("event_kind", "wait_kind")]

    def empty(self) -> None:
        """Delete all rows without triggers. If a lock is held here, an earlier test left something running."""
        with self._db.transaction():
            self._db.execute("set local session_replication_role = replica")
            self._db.execute("set local lock_timeout = '5s'")
            self._db.execute("; ".join(f"delete from {table}" for table in self._tables).encode())
            for name, rows in self._kept.items():
                for row in rows:
                    places = ", ".join(["%s"] * len(row))
                    self._db.execute(f"insert into {name} values ({places})".encode(), row)

    def store(self, clock: ManualClock) -> Store:
        """The open store, with the clock of this test."""
        self._store.clock = self._store.database.clock = clock
        return self._store

    def close(self) -> None:
        self._store.close()
        self._db.close()
