"""What the tests of the ledger share: a sink, a pool of fork servers, a folder in memory, and databases."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.testing import Sink
from perdure.testing.postgres import PostgresServer
from perdure.testing.sweep.server_pool import ServerPool
from tests.memory import MEMORY

APPS = (
    "tests.ledger.support.programs",
    "tests.ledger.support.process_setup",
    "tests.ledger.support.shared_branch",
    "tests.ledger.support.undo_program",
    "tests.ledger.support.restored_store",
    "perdure.store.databases.postgres.database",
)
TRIALS = 4  # at a time, more than processors: a trial mostly waits, for a lease to end or for a request to land


@pytest.fixture(scope="session")
def sink() -> Iterator[Sink]:
    with tempfile.TemporaryDirectory(prefix="sink-", dir=MEMORY) as folder, Sink(folder) as running:
        yield running


@pytest.fixture(scope="session")
def pool() -> Iterator[ServerPool]:
    with ServerPool(*APPS, count=TRIALS) as running:
        yield running


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    """In memory: after a kill the kernel still has what was written. Loss of power is tested elsewhere."""
    made = Path(tempfile.mkdtemp(prefix="ledger-", dir=MEMORY))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="session")
def database(postgres_server: PostgresServer) -> str:
    """A database, and a user whose password is cheap to check: hundreds of processes log in several times each."""
    import psycopg

    url = postgres_server.create_database("ledger")
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("set scram_iterations = 1")
        db.execute("create role sweeper superuser login password 'sweeper'")
    return with_debits(url).replace(f"postgres:{postgres_server.password}@", "sweeper:sweeper@")


def with_debits(url: str) -> str:
    """The same database with the table of the joint tool: two processes that create it at the same time would fail."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as db:
        db.execute("create table debit (account text, cents bigint)")
    return url


@pytest.fixture(params=["SQLite", pytest.param("PostgreSQL", marks=pytest.mark.postgres)])
def sweep_store(request: pytest.FixtureRequest, folder: Path) -> Path | str:
    """Where a sweep puts its stores: a folder, or a database. A test that takes it runs on both."""
    if request.param == "SQLite":
        return folder / str(request.node.originalname)
    url: str = request.getfixturevalue("database")
    return url


@pytest.fixture(scope="session")
def victim() -> Iterator[PostgresServer]:
    """A server that these tests kill; no other test uses it."""
    with PostgresServer(MEMORY) as running:
        yield running
