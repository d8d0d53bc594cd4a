"""What the crash tests share: the fork servers, and a PostgreSQL server that may be killed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.testing.postgres import PostgresServer
from perdure.testing.sweep.server_pool import ServerPool
from tests.crash.support import session_tasks
from tests.memory import MEMORY

APPS = (
    "perdure.store.databases.files.database",
    "perdure.store.databases.postgres.database",
    "tests.crash.support.session_tasks",
)


@pytest.fixture(scope="session")
def pool() -> Iterator[ServerPool]:
    with ServerPool(*APPS, rehearsal="tests.crash.support.session_workload:rehearse") as running:
        yield running


@pytest.fixture(scope="session")
def victim() -> Iterator[PostgresServer]:
    """A server that these tests kill; no other test uses it."""
    with PostgresServer(MEMORY) as running:
        yield running


@pytest.fixture(scope="session")
def measure() -> dict[str, Any]:
    return session_tasks.measure_workload()


@pytest.fixture(scope="session")
def template(pool: ServerPool, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty SQLite store to copy: creating one is swept separately."""
    path = tmp_path_factory.mktemp("template") / "perdure.db"
    pool.call(session_tasks.make_store, target=str(path))
    return path
