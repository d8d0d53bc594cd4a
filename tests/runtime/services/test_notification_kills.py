"""Senders killed with SIGKILL at any moment: every notification arrives, and one that comes twice has the same id."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.store.store import open_store
from perdure.testing import Sink
from perdure.testing.postgres import PostgresServer
from perdure.testing.sweep.server_pool import ServerPool
from tests.crash.support import kill_sweep
from tests.crash.support.kill_sweep import Location, show
from tests.runtime.support import notified_tasks
from tests.seed import sample

POSTGRES = pytest.param("PostgreSQL", marks=pytest.mark.postgres)


@pytest.fixture(scope="module")
def pool() -> Iterator[ServerPool]:
    with ServerPool(notified_tasks, "perdure.store.databases.postgres.database", count=2) as running:
        yield running


def chosen(moments: list[str]) -> list[int]:
    """Always around the delivery itself, and some of the other points, from the seed."""
    own = [number for number, one in enumerate(moments, 1) if one.startswith("point notification.")]
    return sorted({*own, *sample([one for one in range(1, len(moments) + 1) if one not in own], 8)})


@pytest.mark.slow
@pytest.mark.parametrize("database", ["SQLite", POSTGRES])
def test_no_notification_is_lost_by_a_kill(
    database: str, pool: ServerPool, folder: Path, request: pytest.FixtureRequest
) -> None:
    with Sink(folder / "sink") as sink:

        def locate(trial: str, own: Path) -> Location:
            run = f"{database}-{trial}"
            outside = {"url": sink.run(run).url, "log": str(sink.folder / f"{run}.jsonl")}
            if database == "SQLite":
                return outside | {"target": str(own / "perdure.db"), "template": str(template)}
            server: PostgresServer = request.getfixturevalue("postgres_server")
            return outside | {"target": server.create_database(template=empty)}

        template = folder / "template.db"
        open_store(template).close()
        empty = ""
        if database != "SQLite":
            made = request.getfixturevalue("postgres_server").create_database()
            open_store(made).close()
            empty = made.rpartition("/")[2]
        report = show(
            kill_sweep.sweep(
                pool, notified_tasks.tell, notified_tasks.judge, name=f"notifications, {database}", locate=locate,
                choose=chosen,
            )
        )  # fmt: skip
    assert report.failures == []
    assert report.kills > 10
