"""Export and import, killed at any durable operation: no half session, nothing lost, nothing done twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.store.store import open_store
from perdure.testing import Sink
from perdure.testing.postgres import PostgresServer
from perdure.testing.sweep.report import Report
from perdure.testing.sweep.server_pool import ServerPool
from tests.crash.support import kill_sweep
from tests.crash.support.kill_sweep import Location, distinct, kinds_of, show
from tests.interchange.support import bundle_tasks
from tests.seed import sample

pytestmark = pytest.mark.slow
POSTGRES = pytest.param("postgres", True, marks=pytest.mark.postgres)
MakeTarget = Callable[[Path], str]


@pytest.fixture(scope="module")
def pool() -> Iterator[ServerPool]:
    with ServerPool(bundle_tasks, "perdure.store.databases.postgres.database", count=2) as running:
        yield running


def chosen(moments: list[str]) -> list[int]:
    """Some named points, and some operations on the disk, from the seed."""
    found = list(distinct(moments))
    points = [number for number in found if moments[number - 1].startswith("point")]
    return sorted({*sample(points, 6), *sample([one for one in found if one not in points], 14)})


def sweep(
    pool: ServerPool, sink: Sink, folder: Path, task: Any, judge: Any, make_target: MakeTarget,
    *, name: str, form: str, move: bool = True,
) -> Report:  # fmt: skip
    """Kill an export or an import at the chosen points; each trial starts with a copy of the same source store."""
    template = folder / "template"
    template.mkdir()
    exported = task is bundle_tasks.import_bundle
    pool.call(bundle_tasks.prepare, folder=str(template), sink=sink.run().url, exported=exported, move=move, form=form)

    def locate(_: str, folder: Path) -> Location:
        location = {"folder": str(folder), "template": str(template), "form": form, "sink": sink.run().url}
        return location | {"target": make_target(folder)}

    return show(kill_sweep.sweep(pool, task, judge, name=name, locate=locate, choose=chosen))


def sqlite(folder: Path) -> str:
    open_store(folder / "target.db").close()
    return str(folder / "target.db")


def files(folder: Path) -> str:
    return f"files:{folder / 'target'}"


@pytest.fixture
def make_target(request: pytest.FixtureRequest) -> MakeTarget:
    """Makes an empty store for a trial."""
    if request.param != "postgres":
        return {"sqlite": sqlite, "files": files}[request.param]
    server: PostgresServer = request.getfixturevalue("postgres_server")
    empty = server.create_database()
    open_store(empty).close()
    return lambda _: server.create_database(template=empty.rpartition("/")[2])


@pytest.mark.parametrize("form", [".zip", ""])
def test_a_killed_move_leaves_the_session_whole(form: str, pool: ServerPool, outside: Sink, folder: Path) -> None:
    task, judge, name = bundle_tasks.export_move, bundle_tasks.judge_export, f"export --move, {form or 'folder'}"
    report = sweep(pool, outside, folder, task, judge, sqlite, name=name, form=form)
    assert report.failures == []
    assert kinds_of(report)["point"] > 3
    assert report.kills > 10


@pytest.mark.parametrize(
    ("make_target", "move"), [("sqlite", True), ("sqlite", False), ("files", True), POSTGRES], indirect=["make_target"]
)
def test_a_killed_import_leaves_nothing_or_all(
    make_target: MakeTarget, move: bool, pool: ServerPool, outside: Sink, folder: Path, request: pytest.FixtureRequest
) -> None:
    task, judge = bundle_tasks.import_bundle, bundle_tasks.judge_import
    name = f"import, {request.node.callspec.id}"
    report = sweep(pool, outside, folder, task, judge, make_target, name=name, form=".zip", move=move)
    assert report.failures == []
    assert kinds_of(report)["point"] > 3
    assert report.kills > (0 if "postgres" in name else 10)
