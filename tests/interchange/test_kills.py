"""Export and import, killed at any durable operation: no half session, nothing lost, nothing done twice."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from perdure.store.store import open_store
from perdure.testing import Sink
from perdure.testing.postgres import PostgresServer
from perdure.testing.sweep.server_pool import ServerPool, TrialServers
from tests.interchange import lives
from tests.seed import sample

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pool() -> Iterator[ServerPool]:
    with ServerPool(lives, "perdure.store.databases.postgres.database", count=2) as running:
        yield running


def distinct(moments: list[str]) -> Iterator[int]:
    """Every moment that leaves something of its own."""
    for number, (moment, following) in enumerate(zip(moments, [*moments, ""][1:], strict=True), 1):
        if not (moment.startswith("after") and following.startswith("before")):
            yield number


def chosen(moments: list[str]) -> list[int]:
    """Some named points, and some operations on the disk, from the seed."""
    found = list(distinct(moments))
    points = [number for number in found if moments[number - 1].startswith("point")]
    return sorted({*sample(points, 6), *sample([one for one in found if one not in points], 14)})


def sweep(
    pool: ServerPool, sink: Sink, folder: Path, task: Any, judge: Any, targets: Callable[[Path], str],
    *, form: str, move: bool = True,
) -> Counter[str]:  # fmt: skip
    """Run the task once undisturbed and once for every chosen moment, killed there; judge what each left."""
    template = folder / "template"
    template.mkdir()
    given = {"folder": str(template), "sink": sink.run().url, "leaves": task is lives.come_in, "move": move}
    pool.call(lives.prepare, form=form, **given)
    kills: Counter[str] = Counter()
    failures: list[str] = []

    def trial(fatal: int, servers: TrialServers) -> list[str]:
        place = folder / f"trial-{fatal}"
        target = targets(place)
        told: dict[str, Any] = {"folder": str(place), "form": form, "target": target}
        ended = servers.forking.run(task, template=str(template), fatal=fatal, **told)
        last = (ended.values("last") or ["the end"])[0]
        found = [ended.error] if ended.error else servers.warm.call(judge, sink=sink.run().url, **told)
        failures.extend(f"killed at {last} ({fatal}): {one}" for one in found)
        kills[last.split(" ")[0]] += ended.killed
        shutil.rmtree(place, ignore_errors=True)
        return list(ended.result or [])

    moments = pool.each([partial(trial, 0)])[0]
    pool.each([partial(trial, fatal) for fatal in chosen(moments)])
    assert failures == []
    return kills


def sqlite(place: Path) -> str:
    place.mkdir(exist_ok=True)
    open_store(place / "target.db").close()
    return str(place / "target.db")


def files(place: Path) -> str:
    place.mkdir(exist_ok=True)
    return f"files:{place / 'target'}"


@pytest.mark.parametrize("form", [".zip", ""])
def test_a_move_that_is_killed_leaves_the_session_whole(
    form: str, pool: ServerPool, outside: Sink, folder: Path
) -> None:
    kills = sweep(pool, outside, folder, lives.depart, lives.judge_departure, sqlite, form=form)
    print(f"\nexport --move {form or 'folder'}: {sum(kills.values())} kills {dict(kills)}")
    assert kills["point"] > 3
    assert sum(kills.values()) > 10


@pytest.mark.parametrize(("where", "move"), [(sqlite, True), (sqlite, False), (files, True)])
def test_an_import_that_is_killed_leaves_nothing_or_all(
    where: Callable[[Path], str], move: bool, pool: ServerPool, outside: Sink, folder: Path
) -> None:
    kills = sweep(pool, outside, folder, lives.come_in, lives.judge_arrival, where, form=".zip", move=move)
    print(f"\nimport into {where.__name__}, {move=}: {sum(kills.values())} kills {dict(kills)}")
    assert kills["point"] > 3
    assert sum(kills.values()) > 10


@pytest.mark.postgres
def test_an_import_into_postgres_that_is_killed_leaves_nothing_or_all(
    pool: ServerPool, outside: Sink, folder: Path, postgres_server: PostgresServer
) -> None:
    empty = postgres_server.create_database()
    open_store(empty).close()

    def postgres(place: Path) -> str:
        place.mkdir(exist_ok=True)
        return postgres_server.create_database(template=empty.rpartition("/")[2])

    kills = sweep(pool, outside, folder, lives.come_in, lives.judge_arrival, postgres, form=".zip")
    print(f"\nimport into postgres: {sum(kills.values())} kills {dict(kills)}")
    assert kills["point"] > 3
