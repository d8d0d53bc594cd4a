"""Every tool that reads, records, asks or delegates, and compaction: each killed before and after its record.

The tools that change a folder or something outside are killed in `test_fix_sweep` and `tools/test_kills`.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from perdure.testing.sweep.fork_server import ProcessResult
from perdure.testing.sweep.report import Report
from perdure.testing.sweep.sweep import Sweep
from tests.agent.support import tool_agent
from tests.agent.support.agent_sweep import MakeSweep, Scenario, show
from tests.seed import sample

pytestmark = pytest.mark.slow
RECORD = ("commit.before", "commit.after")
ACT = ("act.begun", "act.after")
RECORDING = (*tool_agent.RECORDED, "ask_person", "delegate", "compaction", "the model")
MOMENTS = {tool: {*ACT, *RECORD} for tool in tool_agent.PURE} | {tool: set(RECORD) for tool in RECORDING}
UNRECORDED = "commit.before"  # where an answer of the model is not on record yet, and may be requested again


class PaidSweep(Sweep):
    """Nothing that is on record is paid for, or fetched, a second time."""

    def judge_trial(
        self, sink_run: str, where: str, kills: int, landed: int, last: ProcessResult, *, alive: bool = False
    ) -> None:
        log = self.sink.log(sink_run)
        requested = Counter(line["note"]["asked"] for line in log if line["what"] == "noted")
        fetched = sum(line["what"] == "looked" for line in log)
        again = [f"the model was asked {n} times for {what}" for what, n in requested.items() if n > 1]
        found = again[1:] if where.startswith(UNRECORDED) else again
        if fetched > 1 and where not in {f"{at} of fetch_url" for at in (*ACT, "commit.before")}:
            found.append(f"the page was fetched {fetched} times")
        self.report.failures += [f"killed at {where}: {one}" for one in found]
        super().judge_trial(sink_run, where, kills, landed, last, alive=alive)


SCENARIO = Scenario(
    "the tools", tool_agent, tool_agent.reader.bind("look around", True), tool_agent.run_reader,
    tool_agent.make_template, PaidSweep,
)  # fmt: skip


def killed_in(report: Report) -> set[str]:
    return {where for where, point in report.positions.items() if point.kills}


@pytest.mark.timeout(600)
def test_a_killed_tool_is_recorded_once(make_sweep: MakeSweep, sweep_folder: Path) -> None:
    """About one kill point of each tool, chosen from the seed."""
    sweep = make_sweep(sweep_folder / "stores")
    wanted = set(sample((f"{moment} of {tool}" for tool, moments in MOMENTS.items() for moment in sorted(moments)), 18))
    report = sweep.report
    for _ in range(4):  # a thread that comes a little later shifts the kill points of its process by one
        if left := wanted - killed_in(report):
            sweep.run(choose=lambda moments, left=left: [n for n, at in enumerate(moments, 1) if at in left])  # type: ignore[misc]
    show(sweep)
    assert not report.failures, "\n".join(report.failures)[:5_000]
    assert wanted <= killed_in(report)


@pytest.mark.timeout(600)
@pytest.mark.postgres
def test_a_killed_tool_is_recorded_once_on_postgres(make_sweep: MakeSweep, sweep_database: str) -> None:
    """One kill point of some tools."""

    def one_of_some(moments: list[str]) -> list[int]:
        chosen = {label.partition(" of ")[2]: at for at, label in enumerate(moments, 1) if label.startswith(RECORD)}
        return sample(sorted(chosen.values()), 8)

    sweep = make_sweep(sweep_database)
    sweep.run(choose=one_of_some)
    report = show(sweep)
    assert not report.failures, "\n".join(report.failures)[:5_000]
    assert len({where.partition(" of ")[2] for where in killed_in(report)}) >= 6  # two may be missed by chance
