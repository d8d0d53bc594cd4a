"""A real process, killed while it creates or migrates a store, alone or beside another that does the same."""

from pathlib import Path
from typing import Any

import pytest

from perdure.testing.postgres import PostgresServer
from perdure.testing.sweep.server_pool import ServerPool
from perdure.testing.sweep.sweep import every_point
from tests.crash.support import opening_tasks, session_tasks
from tests.crash.support.kill_sweep import Location, show, some, sweep, thinned
from tests.seed import sample

pytestmark = pytest.mark.slow


def new_sqlite(trial: str, folder: Path) -> Location:
    return {"target": str(folder / "made" / "perdure.db"), "id": trial, "folder": str(folder), "few": True}


def new_files(trial: str, folder: Path) -> Location:
    return {"target": f"files:{folder / 'made' / 'store'}", "id": trial, "folder": str(folder), "few": True}


MIGRATION = (opening_tasks.migrate_store, opening_tasks.judge_migration)
KINDS = pytest.mark.parametrize("kind", opening_tasks.MORE)


@pytest.mark.parametrize("locate", [new_sqlite, new_files])
def test_a_killed_creation_is_finished_by_the_next_process(pool: ServerPool, measure: Any, locate: Any) -> None:
    name = f"creation, {locate.__name__.removeprefix('new_')}"
    chosen = some(30, thinned)
    report = show(
        sweep(
            pool,
            session_tasks.run_workload,
            session_tasks.judge_session,
            name=name,
            locate=locate,
            measure=measure,
            choose=chosen,
        )
    )
    assert report.failures == []
    assert report.kills > 20


def test_a_killed_creation_does_not_hold_up_another_process(pool: ServerPool, measure: Any) -> None:
    """The first process creates the store; the other waits. A late kill may find that the process has ended."""

    def locate(trial: str, folder: Path) -> Location:
        return {"target": str(folder / "perdure.db"), "id": trial, "folder": str(folder)}

    report = show(
        sweep(
            pool,
            opening_tasks.run_beside,
            opening_tasks.judge_beside,
            name="creation beside another",
            locate=locate,
            measure=measure,
            choose=lambda _: sample(range(1, 600), 20),
        )
    )
    assert report.failures == []
    assert report.kills > 3


@KINDS
def test_a_killed_migration_of_sqlite_is_finished_by_the_next_process(
    pool: ServerPool, tmp_path: Path, kind: str
) -> None:
    old = str(tmp_path / "perdure.db")
    pool.call(opening_tasks.make_old_store, target=old)

    def locate(trial: str, folder: Path) -> Location:
        return {"target": str(folder / "perdure.db"), "old": old, "kind": kind}

    chosen = some(20, thinned)
    report = show(sweep(pool, *MIGRATION, name=f"migration, sqlite, {kind}", locate=locate, choose=chosen))
    assert report.failures == []
    assert report.kills > 10


@KINDS
def test_a_killed_migration_of_files_is_finished_by_the_next_process(
    pool: ServerPool, tmp_path: Path, kind: str
) -> None:
    old = f"files:{tmp_path / 'store'}"
    pool.call(opening_tasks.make_old_store, target=old)

    def locate(trial: str, folder: Path) -> Location:
        return {"target": f"files:{folder / 'store'}", "old": old, "kind": kind}

    report = show(
        sweep(pool, *MIGRATION, name=f"migration, files, {kind}", locate=locate, choose=some(20, every_point))
    )
    assert report.failures == []
    assert report.kills > 5


@pytest.mark.postgres
@KINDS
def test_a_killed_migration_of_postgres_is_finished_by_the_next_process(
    pool: ServerPool, postgres_server: PostgresServer, kind: str
) -> None:
    old = postgres_server.create_database()
    pool.call(opening_tasks.make_old_store, target=old)

    def locate(trial: str, folder: Path) -> Location:
        made = postgres_server.create_database(template=old.rpartition("/")[2])
        return {"target": made, "old": old, "kind": kind}

    report = show(sweep(pool, *MIGRATION, name=f"migration, postgres, {kind}", locate=locate))
    assert report.failures == []
    assert report.kills > 1


@pytest.mark.postgres
def test_a_killed_creation_of_postgres_is_finished_by_the_next_process(
    pool: ServerPool, postgres_server: PostgresServer, measure: Any
) -> None:
    def locate(trial: str, folder: Path) -> Location:
        url = f"{postgres_server.create_database()}?application_name={trial}"
        return {"target": url, "id": trial, "folder": str(folder), "few": True}

    def opening(moments: list[str]) -> range:
        return range(1, moments.index("point move.before") + 1)

    report = show(
        sweep(
            pool,
            session_tasks.run_workload,
            session_tasks.judge_session,
            name="creation, postgres",
            locate=locate,
            measure=measure,
            choose=opening,
        )
    )
    assert report.failures == []
    assert report.kills > 3
