"""A real process, killed at fault points and around every durable operation of a session with every kind of move."""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from perdure.testing.postgres import PostgresServer
from perdure.testing.sweep.server_pool import ServerPool
from perdure.testing.sweep.sweep import every_point
from tests.crash.support import parallel_sessions, session_tasks
from tests.crash.support.kill_sweep import Location, distinct, kinds_of, show, some, sweep, thinned

Locate = Callable[[str, Path], Location]
WORKLOAD = (session_tasks.run_workload, session_tasks.judge_session)


def on_sqlite(template: Path) -> Locate:
    def locate(trial: str, folder: Path) -> Location:
        path = folder / "perdure.db"
        return {"target": str(path), "id": trial, "folder": str(folder), "template": str(template)}

    return locate


def on_files(trial: str, folder: Path) -> Location:
    return {"target": f"files:{folder / 'store'}", "id": trial, "folder": str(folder)}


def on_postgres(url: str) -> Locate:
    """One database for every trial, each with a session and a name of its own."""

    def locate(trial: str, folder: Path) -> Location:
        return {"target": f"{url}?application_name={trial}", "id": trial, "folder": str(folder)}

    return locate


def around_commits(moments: list[str]) -> Iterable[int]:
    """Around every commit, and every fourth point of the rest: until it commits, the server has seen nothing."""
    for number, moment in enumerate(moments, 1):
        if "commit" in moment or number % 4 == 0:
            yield number


@pytest.mark.slow
def test_a_life_on_sqlite_survives_a_kill_at_some_moments(pool: ServerPool, template: Path, measure: Any) -> None:
    """The few seconds of it that every commit can afford."""
    place, name = on_sqlite(template), "SQLite, some moments"
    report = show(sweep(pool, *WORKLOAD, name=name, locate=place, measure=measure, choose=some(30, every_point)))
    assert report.failures == []
    assert report.kills > 20


@pytest.mark.slow
def test_a_life_on_sqlite_survives_a_kill_at_any_moment(pool: ServerPool, template: Path, measure: Any) -> None:
    chosen = some(90, thinned)
    report = show(sweep(pool, *WORKLOAD, name="SQLite", locate=on_sqlite(template), measure=measure, choose=chosen))
    assert report.failures == []
    assert report.kills > 70
    assert kinds_of(report)["point"] > 20


@pytest.mark.slow
def test_a_life_in_text_files_survives_a_kill_at_any_moment(pool: ServerPool, measure: Any) -> None:
    chosen = some(90, partial(distinct, points=False))
    report = show(sweep(pool, *WORKLOAD, name="files", locate=on_files, measure=measure, choose=chosen))
    assert report.failures == []
    assert report.kills > 70


@pytest.mark.slow
def test_groups_of_moves_survive_a_kill_at_any_moment(pool: ServerPool, template: Path) -> None:
    """How moves fall into groups differs from run to run: a kill late in the count may find that all is done."""
    report = show(
        sweep(
            pool,
            parallel_sessions.run_parallel_sessions,
            parallel_sessions.judge_parallel_sessions,
            name="SQLite, a crowd",
            locate=on_sqlite(template),
            choose=some(50, thinned),
        )
    )
    assert report.failures == []
    assert report.kills > 20


@pytest.mark.slow
@pytest.mark.postgres
def test_a_life_on_postgres_survives_a_kill_of_its_client_at_any_moment(
    pool: ServerPool, postgres_server: PostgresServer, measure: Any
) -> None:
    url = postgres_server.create_database()
    pool.call(session_tasks.make_store, target=url)
    chosen = some(40, around_commits)
    report = show(sweep(pool, *WORKLOAD, name="PostgreSQL", locate=on_postgres(url), measure=measure, choose=chosen))
    assert report.failures == []
    assert report.kills > 30


@pytest.mark.soak
def test_not_one_moment_is_left_out(pool: ServerPool, template: Path, measure: Any) -> None:
    for name, place in (("SQLite, all", on_sqlite(template)), ("files, all", on_files)):
        report = show(sweep(pool, *WORKLOAD, name=name, locate=place, measure=measure, choose=every_point))
        assert report.failures == []


@pytest.mark.soak
@pytest.mark.postgres
def test_not_one_moment_is_left_out_on_postgres(
    pool: ServerPool, postgres_server: PostgresServer, measure: Any
) -> None:
    url = postgres_server.create_database()
    pool.call(session_tasks.make_store, target=url)
    report = show(
        sweep(pool, *WORKLOAD, name="PostgreSQL, all", locate=on_postgres(url), measure=measure, choose=every_point)
    )
    assert report.failures == []
