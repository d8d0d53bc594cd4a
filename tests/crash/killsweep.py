"""Kill sweeps: the same workload killed at every one of its moments, one real process each, and judged afterwards.

A workload is a task of the fork server, `workload(voice, fatal=k, plant=..., **place)`: it builds a `Countdown` and
says `ack=...` for every answer it receives; it returns its moments, should it live so long. `fatal=0` is undisturbed.
A judge is a task as well, `judge(_, acks=..., measure=..., **place)`, in a process of its own that is not killed; it
returns a verdict. The workload lives one moment longer from trial to trial.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

from perdure.testing.sweep.fork_server import Ended
from perdure.testing.sweep.parallel import Lane, Lanes
from tests.crash.judge import HEADS, Verdict
from tests.figures import record
from tests.memory import MEMORY


@dataclass
class Report:
    """What a sweep found. `points` are the moments of an undisturbed run."""

    name: str
    points: int = 0
    kills: int = 0
    unreached: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def __getattr__(self, head: str) -> int:
        if head in HEADS:
            return self.counts[head]
        raise AttributeError(head)

    @property
    def clean(self) -> bool:
        return not self.failures

    def add(self, label: str, ended: Ended, found: Verdict, *, disturbed: bool) -> None:
        self.kills += ended.killed
        self.unreached += disturbed and not ended.killed
        self.kinds[_kind(label)] += ended.killed
        if ended.hung or ended.error:
            found["stuck"].append("the workload hung" if ended.hung else f"the workload failed: {ended.error}")
        for head in HEADS:
            if found[head]:
                self.counts[head] += 1
                self.failures.append(f"{self.name}, killed at {label}: {head}: {found[head][0]}")

    def show(self) -> Self:
        """Put the figures into the table at the end of the run."""
        each = f"{1000 * self.seconds / max(1, self.kills):.0f} ms"
        row = (self.name, self.points, self.kills, *(self.counts[head] for head in HEADS), each)
        record("kill sweep", ("points", "kills", *HEADS, "each"), row)
        return self


SILENT = {"point move.after", "point commit.before", "point log.before"}  # nothing reaches the disk just before these


def distinct(moments: list[str], *, points: bool = True) -> Iterator[int]:
    """Every moment that leaves something of its own: after one operation is before the next, one kill serves both.

    With `points=False` the same is said of named points between which nothing reaches the disk or a caller.
    """
    for number, (moment, following) in enumerate(zip(moments, [*moments, ""][1:], strict=True), 1):
        if moment.startswith("after") and following.startswith("before"):
            continue
        if points or following not in SILENT:
            yield number


def thinned(moments: list[str], *, keep: int = 2) -> Iterator[int]:
    """The distinct moments, with one of `keep` writes: in the middle of a transaction one write is like another."""
    writes = 0
    for number in distinct(moments):
        write = _kind(moments[number - 1]) == "write"
        writes += write
        if not write or writes % keep == 0:
            yield number


def _kind(label: str) -> str:
    when, _, what = label.partition(" ")
    return "point" if when == "point" else "write" if what.startswith("write") else "sync or name"


def sweep(
    lanes: Lanes,
    workload: Callable[..., Any],
    judge: Callable[..., Any],
    *,
    name: str,
    place: Callable[[str, Path], dict[str, Any]] = lambda trial, folder: {"folder": str(folder)},
    choose: Callable[[list[str]], Iterable[int]] = lambda moments: range(1, len(moments) + 1),
    measure: Any = None,
    plant: str | None = None,
) -> Report:
    """Run the workload once undisturbed, then once for every chosen moment, killed there; judge what each left.

    `place` gives each trial a place of its own, which workload and judge are told; `choose` picks from the moments of
    the undisturbed run, by number from 1. `measure` is for the judge alone, `plant` names a bug for the workload alone.
    """
    report, begun = Report(name), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="killsweep-", dir=MEMORY) as scratch:

        def run(fatal: int, lane: Lane) -> list[str]:
            folder = Path(scratch, str(fatal))
            folder.mkdir()
            given = place(f"trial-{fatal}", folder)
            ended = lane.forking.run(workload, fatal=fatal, plant=plant, **given)
            found = lane.warm.call(judge, acks=ended.told("ack"), measure=measure, **given)
            last = (ended.told("last") or ["the end"])[0]
            report.add(f"{last} ({fatal})", ended, found, disturbed=fatal > 0)
            shutil.rmtree(folder, ignore_errors=True)
            return list(ended.result["moments"]) if ended.result else []

        moments = lanes.each([partial(run, 0)])[0]
        if not moments:
            raise RuntimeError(f"nothing to sweep: {report.failures}")
        report.points = len(moments)
        lanes.each([partial(run, fatal) for fatal in choose(moments)])
    report.seconds = time.monotonic() - begun
    return report
