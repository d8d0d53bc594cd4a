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
from tests.crash.support.kill_sweep import Choice, Location, distinct, kinds_of, show, some, sweep, thinned

Locate = Callable[[str, Path], Location]
WORKLOAD = (session_tasks.run_workload, session_tasks.judge_session)
POSTGRES = pytest.param("PostgreSQL", marks=pytest.mark.postgres)


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


# Which kill points are swept, and how many kills there must be at least.
CHOICES: dict[str, tuple[Choice, int]] = {
    "SQLite, some moments": (some(30, every_point), 20),
    "SQLite": (some(120, thinned), 90),
    "files": (some(90, partial(distinct, points=False)), 70),
    "PostgreSQL": (some(40, around_commits), 30),
}


@pytest.fixture
def locate(database: str, pool: ServerPool, request: pytest.FixtureRequest) -> Locate:
    """Where the trials of a sweep have their stores."""
    if database.startswith("SQLite"):
        return on_sqlite(request.getfixturevalue("template"))
    if database == "files":
        return on_files
    server: PostgresServer = request.getfixturevalue("postgres_server")
    pool.call(session_tasks.make_store, target=(url := server.create_database()))
    return on_postgres(url)


@pytest.mark.slow
@pytest.mark.parametrize("database", ["SQLite, some moments", "SQLite", "files", POSTGRES])
def test_a_session_survives_a_kill_at_any_point(database: str, locate: Locate, pool: ServerPool, measure: Any) -> None:
    chosen, least = CHOICES[database]
    report = show(sweep(pool, *WORKLOAD, name=database, locate=locate, measure=measure, choose=chosen))
    assert report.failures == []
    assert report.kills > least
    assert database != "SQLite" or kinds_of(report)["point"] > 20


@pytest.mark.slow
def test_groups_of_moves_survive_a_kill_at_any_point(pool: ServerPool, template: Path) -> None:
    """How moves fall into groups differs from run to run: a kill late in the count may find that all is done."""
    tasks = (parallel_sessions.run_parallel_sessions, parallel_sessions.judge_parallel_sessions)
    name, chosen = "SQLite, parallel sessions", some(50, thinned)
    report = show(sweep(pool, *tasks, name=name, locate=on_sqlite(template), choose=chosen))
    assert report.failures == []
    assert report.kills > 20


@pytest.mark.soak
@pytest.mark.parametrize("database", ["SQLite", "files", POSTGRES])
def test_a_session_survives_a_kill_at_every_point(
    database: str, locate: Locate, pool: ServerPool, measure: Any
) -> None:
    report = show(sweep(pool, *WORKLOAD, name=f"{database}, all", locate=locate, measure=measure))
    assert report.failures == []
