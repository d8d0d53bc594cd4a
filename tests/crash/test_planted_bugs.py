"""Bugs planted on purpose, in a forked child only: each is caught by the sweeps and scenarios that pass without it.

Syncing less than fully and indexing an artifact before its bytes are durable are caught in `test_power_loss.py`, a
server that does not wait for its disk in `test_postgres_killed.py`.
"""

from pathlib import Path
from typing import Any

import pytest

from perdure.testing.postgres import PostgresServer
from perdure.testing.sweep.parallel import Lanes
from tests.crash import cuts, faulty, lives
from tests.crash.killsweep import Report, sweep
from tests.crash.test_kill_sweep import on_sqlite
from tests.figures import record


def killed(lanes: Lanes, template: Path, measure: Any, plant: str) -> Report:
    """The kill sweep of a life, at its named points only: the shipped code passes it at every moment."""

    def points(moments: list[str]) -> list[int]:
        return [number for number, moment in enumerate(moments, 1) if moment.startswith("point")][:60]

    report = sweep(
        lanes,
        lives.live,
        lives.judge_life,
        name=plant,
        place=on_sqlite(template),
        measure=measure,
        choose=points,
        plant=plant,
    )
    record("planted bugs", ("caught by", "times"), (plant, "kill sweep", len(report.failures)))
    return report


@pytest.mark.slow
def test_an_answer_before_the_commit_is_caught(lanes: Lanes, template: Path, measure: Any) -> None:
    report = killed(lanes, template, measure, "told before commit")
    assert report.counts["lost"] > 0


@pytest.mark.slow
def test_a_chain_that_is_not_advanced_is_caught(lanes: Lanes, template: Path, measure: Any) -> None:
    report = killed(lanes, template, measure, "chain not advanced")
    assert report.counts["broken"] > 20


@pytest.mark.parametrize(
    ("plant", "fault"),
    [
        ("guessed as done", faulty.sync_fails),
        ("guessed as done", faulty.disk_stays_dead),
        ("guessed as not done", faulty.commit_holds_after_all),
        ("savepoint failure ignored", faulty.full_in_a_group),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_bug_is_caught_by_a_failing_disk(lanes: Lanes, tmp_path: Path, plant: str, fault: Any) -> None:
    found = lanes.call(fault, folder=str(tmp_path), plant=plant)
    record("planted bugs", ("caught by", "times"), (plant, fault.__name__, len(found)))
    assert found != []


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("plant", "mode"), [("guessed as done", "cut_before_commit"), ("guessed as not done", "cut_after_commit")]
)
@pytest.mark.parametrize("work", ["append", "use"])
def test_a_guess_is_caught_by_a_cut_connection(
    lanes: Lanes, postgres_server: PostgresServer, plant: str, mode: str, work: str
) -> None:
    url = postgres_server.create_database()
    lanes.call(lives.make_store, target=url)
    found = lanes.call(cuts.cut, url=url, mode=mode, work=work, plant=plant)
    record("planted bugs", ("caught by", "times"), (plant, f"{mode}, {work}", len(found)))
    assert found != []
