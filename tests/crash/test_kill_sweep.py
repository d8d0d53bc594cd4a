"""A real process, killed at every fault point and around every durable operation of a session's whole life."""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from perdure.testing.postgres import PostgresServer
from perdure.testing.sweep.parallel import Lanes
from tests.crash import crowd, lives
from tests.crash.killsweep import distinct, sweep, thinned
from tests.seed import sample

Place = Callable[[str, Path], dict[str, Any]]
LIFE = (lives.live, lives.judge_life)
Choice = Callable[[list[str]], Iterable[int]]


def some(most: int, of: Choice) -> Choice:
    """At most so many of these moments, chosen from the seed."""
    return lambda moments: sample(of(moments), most)


def on_sqlite(template: Path) -> Place:
    def place(trial: str, folder: Path) -> dict[str, Any]:
        path = folder / "perdure.db"
        return {"target": str(path), "id": trial, "folder": str(folder), "template": str(template)}

    return place


def on_files(trial: str, folder: Path) -> dict[str, Any]:
    return {"target": f"files:{folder / 'store'}", "id": trial, "folder": str(folder)}


def on_postgres(url: str) -> Place:
    """One database for every trial, each with a session and a name of its own."""

    def place(trial: str, folder: Path) -> dict[str, Any]:
        return {"target": f"{url}?application_name={trial}", "id": trial, "folder": str(folder)}

    return place


def around_commits(moments: list[str]) -> Iterable[int]:
    """Before and after every commit, and each fourth of the rest: until it commits, the server has seen nothing."""
    for number, moment in enumerate(moments, 1):
        if "commit" in moment or number % 4 == 0:
            yield number


def every(moments: list[str]) -> Iterable[int]:
    return range(1, len(moments) + 1)


@pytest.mark.slow
def test_a_life_on_sqlite_survives_a_kill_at_some_moments(lanes: Lanes, template: Path, measure: Any) -> None:
    """The few seconds of it that every commit can afford."""
    place, name = on_sqlite(template), "SQLite, some moments"
    report = sweep(lanes, *LIFE, name=name, place=place, measure=measure, choose=some(30, every)).show()
    assert report.failures == []
    assert report.kills > 20


@pytest.mark.slow
def test_a_life_on_sqlite_survives_a_kill_at_any_moment(lanes: Lanes, template: Path, measure: Any) -> None:
    chosen = some(90, thinned)
    report = sweep(lanes, *LIFE, name="SQLite", place=on_sqlite(template), measure=measure, choose=chosen).show()
    assert report.failures == []
    assert report.kills > 70
    assert report.kinds["point"] > 20


@pytest.mark.slow
def test_a_life_in_text_files_survives_a_kill_at_any_moment(lanes: Lanes, measure: Any) -> None:
    chosen = some(90, partial(distinct, points=False))
    report = sweep(lanes, *LIFE, name="files", place=on_files, measure=measure, choose=chosen).show()
    assert report.failures == []
    assert report.kills > 70


@pytest.mark.slow
def test_groups_of_moves_survive_a_kill_at_any_moment(lanes: Lanes, template: Path) -> None:
    """How moves fall into groups differs from run to run: a kill late in the count may find that all is done."""
    report = sweep(
        lanes,
        crowd.live_in_a_crowd,
        crowd.judge_crowd,
        name="SQLite, a crowd",
        place=on_sqlite(template),
        choose=some(50, thinned),
    ).show()
    assert report.failures == []
    assert report.kills > 20


@pytest.mark.slow
@pytest.mark.postgres
def test_a_life_on_postgres_survives_a_kill_of_its_client_at_any_moment(
    lanes: Lanes, postgres_server: PostgresServer, measure: Any
) -> None:
    url = postgres_server.create_database()
    lanes.call(lives.make_store, target=url)
    chosen = some(40, around_commits)
    report = sweep(lanes, *LIFE, name="PostgreSQL", place=on_postgres(url), measure=measure, choose=chosen).show()
    assert report.failures == []
    assert report.kills > 30


@pytest.mark.soak
def test_not_one_moment_is_left_out(lanes: Lanes, template: Path, measure: Any) -> None:
    for name, place in (("SQLite, all", on_sqlite(template)), ("files, all", on_files)):
        report = sweep(lanes, *LIFE, name=name, place=place, measure=measure, choose=every).show()
        assert report.failures == []


@pytest.mark.soak
@pytest.mark.postgres
def test_not_one_moment_is_left_out_on_postgres(lanes: Lanes, postgres_server: PostgresServer, measure: Any) -> None:
    url = postgres_server.create_database()
    lanes.call(lives.make_store, target=url)
    report = sweep(lanes, *LIFE, name="PostgreSQL, all", place=on_postgres(url), measure=measure, choose=every).show()
    assert report.failures == []
