"""Bugs planted on purpose, only in a forked process: each is caught by a sweep or scenario that passes without it.

Syncing less than fully and indexing an artifact before its bytes are durable are caught in `test_power_loss.py`, a
server that does not wait for its disk in `test_postgres_killed.py`.
"""

from pathlib import Path
from typing import Any

import pytest

from perdure.testing.postgres import PostgresServer
from perdure.testing.sweep.report import Report
from perdure.testing.sweep.server_pool import ServerPool
from tests.crash.support import lost_connections, session_tasks, sqlite_faults
from tests.crash.support.kill_sweep import sweep
from tests.crash.test_kill_sweep import on_sqlite
from tests.figures import record


def killed(pool: ServerPool, template: Path, measure: Any, plant: str) -> Report:
    """The kill sweep of the workload, at its named points only."""

    def points(moments: list[str]) -> list[int]:
        return [number for number, moment in enumerate(moments, 1) if moment.startswith("point")][:60]

    report = sweep(
        pool,
        session_tasks.run_workload,
        session_tasks.judge_session,
        name=plant,
        locate=on_sqlite(template),
        measure=measure,
        choose=points,
        plant=plant,
    )
    record("planted bugs", ("caught by", "times"), (plant, "kill sweep", len(report.failures)))
    return report


@pytest.mark.slow
def test_an_answer_before_the_commit_is_caught(pool: ServerPool, template: Path, measure: Any) -> None:
    report = killed(pool, template, measure, "answered before commit")
    assert report.counts["lost"] > 0


@pytest.mark.slow
def test_a_chain_that_is_not_advanced_is_caught(pool: ServerPool, template: Path, measure: Any) -> None:
    report = killed(pool, template, measure, "chain not advanced")
    assert report.counts["broken"] > 20


@pytest.mark.parametrize(
    ("plant", "fault"),
    [
        ("guessed as done", sqlite_faults.sync_fails),
        ("guessed as done", sqlite_faults.disk_stays_dead),
        ("guessed as not done", sqlite_faults.commit_holds_after_all),
        ("savepoint failure ignored", sqlite_faults.full_in_a_group),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_bug_is_caught_by_a_failing_disk(pool: ServerPool, tmp_path: Path, plant: str, fault: Any) -> None:
    found = pool.call(fault, folder=str(tmp_path), plant=plant)
    record("planted bugs", ("caught by", "times"), (plant, fault.__name__, len(found)))
    assert found != []


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("plant", "mode"), [("guessed as done", "cut_before_commit"), ("guessed as not done", "cut_after_commit")]
)
@pytest.mark.parametrize("work", ["append", "use"])
def test_a_guess_is_caught_by_a_cut_connection(
    pool: ServerPool, postgres_server: PostgresServer, plant: str, mode: str, work: str
) -> None:
    url = postgres_server.create_database()
    pool.call(session_tasks.make_store, target=url)
    found = pool.call(lost_connections.cut, url=url, mode=mode, work=work, plant=plant)
    record("planted bugs", ("caught by", "times"), (plant, f"{mode}, {work}", len(found)))
    assert found != []
