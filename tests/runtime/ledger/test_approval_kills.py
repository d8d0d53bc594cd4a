"""Votes, withdrawals, expiries, escalations and remembered answers, killed with SIGKILL at any moment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.testing import Sink
from perdure.testing.postgres import PostgresServer
from perdure.testing.sweep.server_pool import ServerPool
from tests.crash.support import kill_sweep
from tests.crash.support.kill_sweep import Location, show
from tests.runtime.support import approval_tasks
from tests.seed import sample

POSTGRES = pytest.param("PostgreSQL", 10, marks=pytest.mark.postgres)


@pytest.fixture(scope="module")
def pool() -> Iterator[ServerPool]:
    with ServerPool(approval_tasks, "perdure.store.databases.postgres.database", count=2) as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize(("database", "kills"), [("SQLite", 24), POSTGRES])
def test_a_kill_dispatches_nothing_without_its_quorum_and_uses_nothing_twice(
    database: str, kills: int, pool: ServerPool, folder: Path, request: pytest.FixtureRequest
) -> None:
    empty = ""
    with Sink(folder / "sink") as sink:

        def locate(trial: str, own: Path) -> Location:
            run = f"{database}-{trial}"
            outside = {"url": sink.run(run).url, "log": str(sink.folder / f"{run}.jsonl")}
            if database == "SQLite":
                return outside | {"target": str(own / "perdure.db"), "template": str(folder / "template.db")}
            server: PostgresServer = request.getfixturevalue("postgres_server")
            return outside | {"target": server.create_database(template=empty)}

        made = str(folder / "template.db")
        if database != "SQLite":
            made = request.getfixturevalue("postgres_server").create_database()
            empty = made.rpartition("/")[2]
        pool.call(approval_tasks.prepare, target=made)
        report = show(
            kill_sweep.sweep(
                pool,
                approval_tasks.govern,
                approval_tasks.judge,
                name=f"approvals, {database}",
                locate=locate,
                choose=lambda moments: sample(range(1, len(moments) + 1), kills),
            )
        )
    assert report.failures == []
    assert report.kills > kills // 2
