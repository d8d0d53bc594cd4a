"""A real process, killed while it creates or migrates a store, alone or beside another that does the same."""

from pathlib import Path
from typing import Any

import pytest

from perdure.testing.postgres import PostgresServer
from perdure.testing.sweep.parallel import Lanes
from tests.crash import lives, openings
from tests.crash.killsweep import sweep, thinned
from tests.crash.test_kill_sweep import every, some
from tests.seed import sample

pytestmark = pytest.mark.slow


def new_sqlite(trial: str, folder: Path) -> dict[str, Any]:
    return {"target": str(folder / "made" / "perdure.db"), "id": trial, "folder": str(folder), "few": True}


def new_files(trial: str, folder: Path) -> dict[str, Any]:
    return {"target": f"files:{folder / 'made' / 'store'}", "id": trial, "folder": str(folder), "few": True}


MOVING = (openings.migrate_store, openings.judge_migration)
KINDS = pytest.mark.parametrize("kind", openings.MORE)


@pytest.mark.parametrize("place", [new_sqlite, new_files])
def test_a_killed_creation_is_finished_by_the_next_process(lanes: Lanes, measure: Any, place: Any) -> None:
    name = f"creation, {place.__name__.removeprefix('new_')}"
    chosen = some(30, thinned)
    report = sweep(lanes, lives.live, lives.judge_life, name=name, place=place, measure=measure, choose=chosen).show()
    assert report.failures == []
    assert report.kills > 20


def test_a_killed_creation_does_not_hold_up_another_process(lanes: Lanes, measure: Any) -> None:
    """Whoever comes first creates the store; the other one, in turn, waits. A kill far on may find nothing to kill."""

    def place(trial: str, folder: Path) -> dict[str, Any]:
        return {"target": str(folder / "perdure.db"), "id": trial, "folder": str(folder)}

    report = sweep(
        lanes,
        openings.live_beside,
        openings.judge_beside,
        name="creation beside another",
        place=place,
        measure=measure,
        choose=lambda _: sample(range(1, 600), 20),
    ).show()
    assert report.failures == []
    assert report.kills > 3


@KINDS
def test_a_killed_migration_of_sqlite_is_finished_by_the_next_process(lanes: Lanes, tmp_path: Path, kind: str) -> None:
    old = str(tmp_path / "perdure.db")
    lanes.call(openings.make_old_store, target=old)

    def place(trial: str, folder: Path) -> dict[str, Any]:
        return {"target": str(folder / "perdure.db"), "old": old, "kind": kind}

    chosen = some(20, thinned)
    report = sweep(lanes, *MOVING, name=f"migration, sqlite, {kind}", place=place, choose=chosen).show()
    assert report.failures == []
    assert report.kills > 10


@KINDS
def test_a_killed_migration_of_files_is_finished_by_the_next_process(lanes: Lanes, tmp_path: Path, kind: str) -> None:
    old = f"files:{tmp_path / 'store'}"
    lanes.call(openings.make_old_store, target=old)

    def place(trial: str, folder: Path) -> dict[str, Any]:
        return {"target": f"files:{folder / 'store'}", "old": old, "kind": kind}

    report = sweep(lanes, *MOVING, name=f"migration, files, {kind}", place=place, choose=some(20, every)).show()
    assert report.failures == []
    assert report.kills > 5


@pytest.mark.postgres
@KINDS
def test_a_killed_migration_of_postgres_is_finished_by_the_next_process(
    lanes: Lanes, postgres_server: PostgresServer, kind: str
) -> None:
    old = postgres_server.create_database()
    lanes.call(openings.make_old_store, target=old)

    def place(trial: str, folder: Path) -> dict[str, Any]:
        made = postgres_server.create_database(template=old.rpartition("/")[2])
        return {"target": made, "old": old, "kind": kind}

    report = sweep(lanes, *MOVING, name=f"migration, postgres, {kind}", place=place).show()
    assert report.failures == []
    assert report.kills > 1


@pytest.mark.postgres
def test_a_killed_creation_of_postgres_is_finished_by_the_next_process(
    lanes: Lanes, postgres_server: PostgresServer, measure: Any
) -> None:
    def place(trial: str, folder: Path) -> dict[str, Any]:
        url = f"{postgres_server.create_database()}?application_name={trial}"
        return {"target": url, "id": trial, "folder": str(folder), "few": True}

    def opening(moments: list[str]) -> range:
        return range(1, moments.index("point move.before") + 1)

    report = sweep(
        lanes, lives.live, lives.judge_life, name="creation, postgres", place=place, measure=measure, choose=opening
    ).show()
    assert report.failures == []
    assert report.kills > 3
