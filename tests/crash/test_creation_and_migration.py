"""A real process, killed while it creates or migrates a store, alone or beside another that does the same."""

from pathlib import Path
from typing import Any

import pytest

from perdure.testing.postgres import PostgresServer
from perdure.testing.sweep.server_pool import ServerPool
from perdure.testing.sweep.sweep import every_point
from tests.crash.support import opening_tasks, session_tasks
from tests.crash.support.kill_sweep import Choice, Location, show, some, sweep, thinned
from tests.seed import sample

pytestmark = pytest.mark.slow
DATABASES = ["sqlite", "files", pytest.param("postgres", marks=pytest.mark.postgres)]
WORKLOAD = (session_tasks.run_workload, session_tasks.judge_session)
MIGRATION = (opening_tasks.migrate_store, opening_tasks.judge_migration)


def while_opening(moments: list[str]) -> range:
    return range(1, moments.index("point move.before") + 1)


# Which kill points are swept, and how many kills there must be at least.
CREATION: dict[str, tuple[Choice, int]] = {
    "sqlite": (some(30, thinned), 20),
    "files": (some(30, thinned), 20),
    "postgres": (while_opening, 3),
}
MIGRATIONS: dict[str, tuple[Choice, int]] = {
    "sqlite": (some(20, thinned), 10),
    "files": (some(20, every_point), 5),
    "postgres": (every_point, 1),
}


@pytest.mark.parametrize("database", DATABASES)
def test_a_killed_creation_is_finished_by_the_next_process(
    database: str, pool: ServerPool, measure: Any, request: pytest.FixtureRequest
) -> None:
    def locate(trial: str, folder: Path) -> Location:
        if database == "postgres":
            server: PostgresServer = request.getfixturevalue("postgres_server")
            target = f"{server.create_database()}?application_name={trial}"
        else:
            target = {"sqlite": f"{folder}/made/perdure.db", "files": f"files:{folder}/made/store"}[database]
        return {"target": target, "id": trial, "folder": str(folder), "few": True}

    chosen, least = CREATION[database]
    name = f"creation, {database}"
    report = show(sweep(pool, *WORKLOAD, name=name, locate=locate, measure=measure, choose=chosen))
    assert report.failures == []
    assert report.kills > least


def test_a_killed_creation_does_not_block_another_process(pool: ServerPool, measure: Any) -> None:
    """The first process creates the store; the other waits. A late kill may find that the process has ended."""

    def locate(trial: str, folder: Path) -> Location:
        return {"target": str(folder / "perdure.db"), "id": trial, "folder": str(folder)}

    tasks, name = (opening_tasks.run_beside, opening_tasks.judge_beside), "creation beside another"
    chosen = sample(range(1, 600), 20)
    report = show(sweep(pool, *tasks, name=name, locate=locate, measure=measure, choose=lambda _: chosen))
    assert report.failures == []
    assert report.kills > 3


@pytest.mark.parametrize("database", DATABASES)
@pytest.mark.parametrize("kind", opening_tasks.MORE)
def test_a_killed_migration_is_finished_by_the_next_process(
    kind: str, database: str, pool: ServerPool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    server: PostgresServer | None = request.getfixturevalue("postgres_server") if database == "postgres" else None
    old = server.create_database() if server else _target(database, tmp_path)
    pool.call(opening_tasks.make_old_store, target=old)

    def locate(_: str, folder: Path) -> Location:
        copied = server.create_database(template=old.rpartition("/")[2]) if server else _target(database, folder)
        return {"target": copied, "old": old, "kind": kind}

    chosen, least = MIGRATIONS[database]
    report = show(sweep(pool, *MIGRATION, name=f"migration, {database}, {kind}", locate=locate, choose=chosen))
    assert report.failures == []
    assert report.kills > least


def _target(database: str, folder: Path) -> str:
    return {"sqlite": f"{folder}/perdure.db", "files": f"files:{folder}/store"}[database]
