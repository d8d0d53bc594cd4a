"""What the ledger's tests share: a sink, lanes of fork servers, a folder in memory, and the figures at the end."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.testing import Sink
from perdure.testing.postgres import PostgresServer
from perdure.testing.sweep.parallel import Lanes
from tests.ledger.stops import Pairs
from tests.memory import MEMORY

APPS = (
    "tests.ledger.programs", "tests.ledger.scenes", "tests.ledger.branch", "tests.ledger.undone",
    "tests.ledger.restored", "perdure.store.databases.postgres.database",
)  # fmt: skip
LANES = 4  # more than processors: much of a trial is waiting, for a lease to end or for something to land


@pytest.fixture(scope="session")
def sink() -> Iterator[Sink]:
    with tempfile.TemporaryDirectory(prefix="sink-", dir=MEMORY) as folder, Sink(folder) as running:
        yield running


@pytest.fixture(scope="session")
def lanes() -> Iterator[Lanes]:
    with Lanes(*APPS, count=LANES) as running:
        yield running


@pytest.fixture(scope="session")
def pairs() -> Iterator[Pairs]:
    with Pairs(APPS, LANES) as running:
        yield running


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    """A kill leaves to the kernel what was written, so memory does as well as a disk; power is lost elsewhere."""
    made = Path(tempfile.mkdtemp(prefix="ledger-", dir=MEMORY))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="session")
def database(postgres_server: PostgresServer) -> str:
    """A database, and a user whose password costs little: hundreds of processes log in several times each."""
    import psycopg

    url = postgres_server.create_database("ledger")
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("set scram_iterations = 1")
        db.execute("create role sweeper superuser login password 'sweeper'")
    return with_debits(url).replace(f"postgres:{postgres_server.password}@", "sweeper:sweeper@")


def with_debits(url: str) -> str:
    """The same database with the table of the joint tool: two processes that create it at once would fail."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as db:
        db.execute("create table debit (account text, cents bigint)")
    return url


@pytest.fixture(scope="session")
def victim() -> Iterator[PostgresServer]:
    """A server of our own: these tests kill it, and nobody else should notice."""
    with PostgresServer(MEMORY) as running:
        yield running
