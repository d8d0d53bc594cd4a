"""Fork, merge and rewind, killed at every durable operation and in the middle of every change of files."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from perdure.testing import Sink
from perdure.testing.postgres import PostgresServer
from perdure.testing.sweep.fork_server import ProcessResult
from perdure.testing.sweep.report import Report
from perdure.testing.sweep.server_pool import ServerPool
from perdure.testing.sweep.sweep import Sweep
from tests.agent import swept_branches as swept
from tests.memory import MEMORY
from tests.seed import sample

DURABLE = ("commit.after", "act.begun", "act.after")


class Branches(Sweep):
    """Sessions that rest have not ended: they are judged by what they left, and by the rules of every ledger."""

    def judge_trial(
        self, run: str, where: str, kills: int, landed: int, last: ProcessResult, *, alive: bool = False
    ) -> None:
        assert self.baseline is not None
        found: dict[str, list[str]] = {}
        if last.error or last.hung or last.killed:
            found["stuck"] = [f"the last run ended with {last.error or 'nothing: it hung or died'}"]
        else:
            assert self.baseline.ends is not None, "two undisturbed runs leave different things"
            found["lost"] = [
                f"{what}: {now[what]}, and undisturbed {then[what]}"
                for (_, then, _), (_, now, _) in ((self.baseline.ends[0], ends[0]) for ends in last.result["ends"])
                for what in then
                if now[what] != then[what]
            ]
            problems = last.result["ledger"]["problems"]
            found["broken"] = [said for kind, said in problems if kind != "stuck"]
        self.report.add(where, kills, landed, found)


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    with TemporaryDirectory(prefix="branches-", dir=MEMORY, ignore_cleanup_errors=True) as made:
        swept.make_template(Path(made, "repositories"))
        yield Path(made)


@pytest.fixture(scope="module")
def pool() -> Iterator[ServerPool]:
    with ServerPool("tests.agent.swept_branches", "perdure.store.databases.postgres.database", count=3) as running:
        yield running


def sweep(pool: ServerPool, sink: Sink, store: str | Path, place: Path) -> Branches:
    environment = {swept.REPOSITORIES: str(place / "repositories")}
    return Branches(
        pool, swept.brancher.bind("change things"), sink, store, name="branches", environment=environment,
        script=swept.run_branches,
    )  # fmt: skip


def swept_well(made: Branches, report: Report) -> bool:
    """Nothing was found, and the undisturbed run, with which all are compared, did what it was to do."""
    assert not report.failures, "\n".join(report.failures)[:5_000]
    assert made.baseline is not None
    assert made.baseline.ends is not None
    assert made.baseline.ends[0][1]["person"]["a.txt"].endswith(" two\n")  # after the mode, which the umask decides
    return report.kills > 0


def show(report: Report, where: str) -> Report:
    found = ", ".join(f"{head} {count}" for head, count in report.counts.items()) or "nothing wrong"
    said = f"{report.kills} kills at {report.moments} moments in {report.seconds:.0f} s, {found}"
    print(f"branches on {where}: {said}", file=sys.stderr)
    return report


def durable(moments: list[str], files: int) -> Iterable[int]:
    """Each durable operation and each act, and every so many changes of files."""
    changes = 0
    for number, label in enumerate(moments, start=1):
        changes += label.startswith("os.")
        if label in DURABLE or (label.startswith("os.") and changes % files == 0):
            yield number


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_branches_killed_anywhere_leave_the_same_files_on_sqlite(pool: ServerPool, sink: Sink, place: Path) -> None:
    made = sweep(pool, sink, place / "stores", place)
    report = show(made.run(choose=lambda found: sample(durable(found, 10), 12)), "SQLite")
    assert swept_well(made, report)
    assert report.kills > 3 * report.unreached


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.postgres
def test_branches_killed_anywhere_leave_the_same_files_on_postgres(
    pool: ServerPool, sink: Sink, place: Path, postgres_server: PostgresServer
) -> None:
    made = sweep(pool, sink, postgres_server.create_database("branches"), place)
    report = show(made.run(choose=lambda found: sample(durable(found, 100_000), 4)), "PostgreSQL")
    assert swept_well(made, report)
    assert report.kills > 3 * report.unreached


@pytest.mark.soak
def test_branches_killed_at_every_moment(pool: ServerPool, sink: Sink, place: Path) -> None:
    made = sweep(pool, sink, place / "every", place)
    assert swept_well(made, show(made.run(), "SQLite, every moment"))
