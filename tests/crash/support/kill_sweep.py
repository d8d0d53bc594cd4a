"""Kill sweeps of any workload: killed at chosen kill points, one real process each, and judged afterwards.

A workload is a task of a fork server, `workload(channel, fatal=k, plant=..., **location)`. It arms its kill points,
sends `ack=...` for every answer it receives, and returns its kill points if it is not killed; `fatal=0` is undisturbed.
A judge is a task as well, `judge(_, acks=..., measure=..., **location)`, in a process of its own that is not killed; it
returns a verdict.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from perdure.testing.sweep.report import Report
from perdure.testing.sweep.server_pool import ServerPool, TrialServers
from perdure.testing.sweep.sweep import every_point, run_trials
from tests.crash.support.verdict import HEADS, Verdict
from tests.figures import record_sweep
from tests.memory import MEMORY
from tests.seed import sample

Choice = Callable[[list[str]], Iterable[int]]
Location = dict[str, Any]
SILENT = {"point move.after", "point commit.before", "point log.before"}  # nothing reaches the disk just before these


def some(most: int, of: Choice) -> Choice:
    """At most so many of these kill points, chosen from the seed."""
    return lambda moments: sample(of(moments), most)


def distinct(moments: list[str], *, points: bool = True) -> Iterator[int]:
    """Every kill point that leaves a state of its own: after one operation is before the next, one kill serves both.

    With `points=False` the same holds for named points between which nothing reaches the disk or a caller.
    """
    for number, (moment, following) in enumerate(zip(moments, [*moments, ""][1:], strict=True), 1):
        if moment.startswith("after") and following.startswith("before"):
            continue
        if points or following not in SILENT:
            yield number


def thinned(moments: list[str], *, keep: int = 2) -> Iterator[int]:
    """The distinct kill points, with one of `keep` writes: within a transaction one write is like another."""
    writes = 0
    for number in distinct(moments):
        write = kind_of(moments[number - 1]) == "write"
        writes += write
        if not write or writes % keep == 0:
            yield number


def kind_of(label: str) -> str:
    when, _, what = label.partition(" ")
    return "point" if when == "point" else "write" if what.startswith("write") else "sync or name"


def kinds_of(report: Report) -> Counter[str]:
    """How many kills there were at named points, at writes, and at syncs and changes of names."""
    found: Counter[str] = Counter()
    for where, point in report.positions.items():
        found[kind_of(where)] += point.kills
    return found


def sweep(
    pool: ServerPool,
    workload: Callable[..., Any],
    judge: Callable[..., Any],
    *,
    name: str,
    locate: Callable[[str, Path], Location] = lambda trial, folder: {"folder": str(folder)},
    choose: Choice = every_point,
    measure: Any = None,
    plant: str | None = None,
) -> Report:
    """Run the workload once undisturbed, then once for every chosen point, killed there; judge what each left.

    `locate` gives each trial a location of its own, which workload and judge receive; `choose` picks from the points of
    the undisturbed run, by number from 1. `measure` is for the judge only, `plant` names a bug for the workload only.
    """
    report = Report(name)
    with tempfile.TemporaryDirectory(prefix="kill-sweep-", dir=MEMORY) as scratch:

        def trial(fatal: int, servers: TrialServers) -> list[str]:
            folder = Path(scratch, str(fatal))
            folder.mkdir()
            location = locate(f"trial-{fatal}", folder)
            ended = servers.forking.run(workload, fatal=fatal, plant=plant, **location)
            found: Verdict = servers.warm.call(judge, acks=ended.values("ack"), measure=measure, **location)
            if ended.hung or ended.error:
                found["stuck"].append("the workload hung" if ended.hung else f"the workload failed: {ended.error}")
            last = (ended.values("last") or ["the end"])[0]
            report.add(f"{last} ({fatal})", int(ended.killed), 0, found)
            shutil.rmtree(folder, ignore_errors=True)
            return list(ended.result["moments"]) if ended.result else []

        def undisturbed() -> list[str]:
            moments = pool.each([lambda servers: trial(0, servers)])[0]
            report.unreached = 0  # it was not to be killed
            if not moments:
                raise RuntimeError(f"nothing to sweep: {report.failures}")
            return moments

        run_trials(pool, report, undisturbed, choose, trial)
    return report


def show(report: Report) -> Report:
    """Add the report to the table of kill sweeps."""
    record_sweep("kill sweep", report.name, report, HEADS)
    return report
