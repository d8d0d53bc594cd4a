"""Fork, merge and rewind, killed at every durable operation and in the middle of every change of files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from perdure.testing.sweep.fork_server import ProcessResult
from perdure.testing.sweep.sweep import Sweep
from tests.agent.support import branch_agent
from tests.agent.support.agent_sweep import MakeSweep, Scenario, check_report, show
from tests.seed import sample

DURABLE = ("commit.after", "act.begun", "act.after")


class BranchSweep(Sweep):
    """Sessions that rest have not ended: they are judged by what they left, and by the rules of every ledger."""

    def judge_trial(
        self, sink_run: str, where: str, kills: int, landed: int, last: ProcessResult, *, alive: bool = False
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
            found["broken"] = [sentence for kind, sentence in problems if kind != "stuck"]
        self.report.add(where, kills, landed, found)


SCENARIO = Scenario(
    "branches", branch_agent, branch_agent.brancher.bind("change things"), branch_agent.run_branches,
    branch_agent.make_template, BranchSweep,
)  # fmt: skip


def check_baseline(sweep: Sweep) -> None:
    """The undisturbed run, with which all others are compared, did what it was meant to do."""
    assert sweep.baseline is not None
    assert sweep.baseline.ends is not None
    assert sweep.baseline.ends[0][1]["person"]["a.txt"].endswith(" two\n")  # after the mode, which the umask decides


def durable(moments: list[str], files: int) -> Iterable[int]:
    """Each durable operation and each act, and one in so many changes of files."""
    changes = 0
    for number, label in enumerate(moments, start=1):
        changes += label.startswith("os.")
        if label in DURABLE or (label.startswith("os.") and changes % files == 0):
            yield number


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_branches_leave_the_same_files(make_sweep: MakeSweep, sweep_store: str | Path) -> None:
    sweep = make_sweep(sweep_store)
    files, most = (100_000, 4) if sweep.url else (10, 12)
    sweep.run(choose=lambda moments: sample(durable(moments, files), most))
    assert show(sweep).kills > 0
    check_baseline(sweep)
    check_report(sweep)


@pytest.mark.soak
def test_branches_killed_at_every_point_leave_the_same_files(make_sweep: MakeSweep, sweep_folder: Path) -> None:
    sweep = make_sweep(sweep_folder / "every")
    sweep.run()
    assert show(sweep, "every moment").kills > 0
    assert not sweep.report.failures, "\n".join(sweep.report.failures)[:5_000]
    check_baseline(sweep)
