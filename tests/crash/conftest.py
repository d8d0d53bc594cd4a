"""What the crash tests share: the fork servers, a PostgreSQL server that may be killed, and the figures at the end."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.testing.postgres import PostgresServer
from perdure.testing.sweep.parallel import Lanes
from tests.crash import lives
from tests.memory import MEMORY

APPS = ("perdure.store.databases.files.database", "perdure.store.databases.postgres.database", "tests.crash.lives")


@pytest.fixture(scope="session")
def lanes() -> Iterator[Lanes]:
    with Lanes(*APPS, rehearsal="tests.crash.workload:rehearse") as running:
        yield running


@pytest.fixture(scope="session")
def victim() -> Iterator[PostgresServer]:
    """A server of our own: these tests kill it, and nobody else should notice."""
    with PostgresServer(MEMORY) as running:
        yield running


@pytest.fixture(scope="session")
def measure() -> dict[str, Any]:
    return lives.measured()


@pytest.fixture(scope="session")
def template(lanes: Lanes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty SQLite store, to be copied: creating one is swept on its own."""
    path = tmp_path_factory.mktemp("template") / "perdure.db"
    lanes.call(lives.make_store, target=str(path))
    return path
