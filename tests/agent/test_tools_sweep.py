"""Every tool that looks, keeps, asks or delegates, and compaction: each killed before and after its record.

The tools that change a folder or something outside are killed in `test_sweep` and `tools/test_kills`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from perdure.testing import Sink
from perdure.testing.postgres import PostgresServer
from perdure.testing.sweep.fork_server import ProcessResult
from perdure.testing.sweep.report import Report
from perdure.testing.sweep.server_pool import ServerPool
from perdure.testing.sweep.sweep import Sweep
from tests.agent import swept_tools as swept
from tests.memory import MEMORY
from tests.seed import sample

pytestmark = pytest.mark.slow
RECORD = ("commit.before", "commit.after")
ACT = ("act.begun", "act.after")
MOMENTS = (
    {tool: {*ACT, *RECORD} for tool in swept.PURE}
    | {tool: set(RECORD) for tool in (*swept.KEPT, "ask_person", "delegate", "compaction", "the model")}
)  # fmt: skip
UNRECORDED = "commit.before"  # where an answer of the model is not on record yet, and may be asked for again


class Looking(Sweep):
    """Nothing that is on record is paid for, or fetched, a second time."""

    def judge_trial(
        self, run: str, where: str, kills: int, landed: int, last: ProcessResult, *, alive: bool = False
    ) -> None:
        log = self.sink.log(run)
        asked = Counter(line["note"]["asked"] for line in log if line["what"] == "noted")
        fetched = sum(line["what"] == "looked" for line in log)
        again = [f"the model was asked {n} times for {what}" for what, n in asked.items() if n > 1]
        found = again[1:] if where.startswith(UNRECORDED) else again
        if fetched > 1 and where not in {f"{at} of fetch_url" for at in (*ACT, "commit.before")}:
            found.append(f"the page was fetched {fetched} times")
        self.report.failures += [f"killed at {where}: {one}" for one in found]
        super().judge_trial(run, where, kills, landed, last, alive=alive)


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    with TemporaryDirectory(prefix="tools-", dir=MEMORY, ignore_cleanup_errors=True) as made:
        swept.make_template(Path(made, "repositories"))
        yield Path(made)


@pytest.fixture(scope="module")
def pool() -> Iterator[ServerPool]:
    with ServerPool("tests.agent.swept_tools", "perdure.store.databases.postgres.database", count=3) as running:
        yield running


def sweep(pool: ServerPool, sink: Sink, store: str | Path, place: Path) -> Looking:
    environment = {swept.REPOSITORIES: str(place / "repositories")}
    bound = swept.looker.bind("look around", True)
    return Looking(pool, bound, sink, store, name="the tools", environment=environment, script=swept.run_looker)


def show(report: Report, where: str) -> Report:
    found = ", ".join(f"{head} {count}" for head, count in report.counts.items()) or "nothing wrong"
    print(f"the tools on {where}: {report.kills} kills in {report.seconds:.0f} s, {found}", file=sys.stderr)
    return report


def killed_in(report: Report) -> set[str]:
    return {where for where, position in report.positions.items() if position.kills}


@pytest.mark.timeout(600)
def test_every_tool_killed_before_and_after_its_record_is_told_once(pool: ServerPool, sink: Sink, place: Path) -> None:
    """About one moment of each tool, chosen from the seed."""
    made = sweep(pool, sink, place / "stores", place)
    wanted = set(sample((f"{moment} of {tool}" for tool, moments in MOMENTS.items() for moment in sorted(moments)), 18))
    report = made.report
    for _ in range(4):  # a thread that comes a little later shifts the moments of its life by one
        if left := wanted - killed_in(report):
            made.run(choose=lambda moments, left=left: [n for n, at in enumerate(moments, 1) if at in left])  # type: ignore[misc]
    show(report, "SQLite")
    assert not report.failures, "\n".join(report.failures)[:5_000]
    assert wanted <= killed_in(report)


@pytest.mark.timeout(600)
@pytest.mark.postgres
def test_the_same_on_postgres(pool: ServerPool, sink: Sink, place: Path, postgres_server: PostgresServer) -> None:
    """One moment of some tools."""

    def one_of_some(moments: list[str]) -> list[int]:
        chosen = {label.partition(" of ")[2]: at for at, label in enumerate(moments, 1) if label.startswith(RECORD)}
        return sample(sorted(chosen.values()), 8)

    url = postgres_server.create_database("tools")
    report = show(sweep(pool, sink, url, place).run(choose=one_of_some), "PostgreSQL")
    assert not report.failures, "\n".join(report.failures)[:5_000]
    assert len({where.partition(" of ")[2] for where in killed_in(report)}) >= 6  # two may be missed by chance
