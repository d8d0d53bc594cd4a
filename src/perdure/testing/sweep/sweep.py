"""Crash sweeps: your own program, killed at every moment that matters, run again, and judged by what is outside.

A moment is a fault point (`perdure.faults`): before and after every durable operation, and around every act. The
program first runs undisturbed, twice, which tells what it leaves outside and which moments it has. Then, for each
moment, a fresh process runs it and is killed there with SIGKILL; another one runs it to its end, and once more from
the start. What the sink then holds is compared with the undisturbed run:

    duplicated   more is outside than there should be
    lost         less is outside, or the program ends otherwise than it did undisturbed
    needless     a person was asked what could have been known
    blind        it was tried again though nobody had looked
    stuck        it did not come to its end
    broken       the ledger contradicts itself, or something was done without its approval

Nothing is raised for what a sweep finds: the report says it, and `report.ok` sums it up.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from perdure.errors import ConfigError
from perdure.ids import new_name
from perdure.runtime.definitions.program import Bound
from perdure.testing.sink import Sink, lasting
from perdure.testing.sweep.expectation import HEADS, Undisturbed, judge
from perdure.testing.sweep.fork_server import Ended, task_name
from perdure.testing.sweep.parallel import Lane, Lanes

LIVE, MAKE = "perdure.testing.sweep.trial:live", "perdure.testing.sweep.trial:make_store"


@dataclass
class Position:
    """What was found where the program was killed."""

    kills: int = 0
    outside: Counter[int] = field(default_factory=Counter)  # how many effects had landed at the kill, how often
    counts: Counter[str] = field(default_factory=Counter)


@dataclass
class Report:
    """What a sweep found."""

    name: str
    moments: int = 0
    kills: int = 0
    unreached: int = 0
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    positions: dict[str, Position] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Nothing was found, and there was something to look at."""
        return not self.failures and self.kills > 0

    def add(self, where: str, kills: int, landed: int, found: Mapping[str, Sequence[str]]) -> None:
        """Add what one trial found."""
        self.kills += kills
        self.unreached += not kills
        position = self.positions.setdefault(where, Position())
        position.kills += kills
        position.outside[landed] += 1
        for head, sentences in found.items():
            if sentences:
                self.counts[head] += 1
                position.counts[head] += 1
                self.failures.append(f"{self.name}, killed at {where}: {head}: {sentences[0]}")

    def __str__(self) -> str:
        rows = [["killed at", "kills", "landed by then", *HEADS]]
        for where, position in self.positions.items():
            landed = ", ".join(f"{count} ×{times}" for count, times in sorted(position.outside.items()))
            rows.append([where, str(position.kills), landed, *(str(position.counts[head]) for head in HEADS)])
        rows.append(["all", str(self.kills), "", *(str(self.counts[head]) for head in HEADS)])
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        title = f"{self.name}: {self.kills} kills in {self.seconds:.1f} s"
        return "\n".join([title, *lines, *self.failures[:10]])


def crash_sweep(
    bound: Bound[Any],
    *,
    app: str | ModuleType | Sequence[str | ModuleType],
    sink: Sink,
    store: str | Path,
    setup: Callable[[], None] | None = None,
    person: Callable[..., Any] | None = None,
    environment: Mapping[str, str] | None = None,
    mode: Mapping[str, Any] | None = None,
    twice: bool = False,
    lanes: int = 0,
) -> Report:
    """Kill a program at each of its moments, run it again, and judge at the sink.

    `app` is the code: modules by name, path or themselves, imported by the processes that are killed. `store` is a
    folder in which each trial gets a SQLite store of its own, or a `postgresql://` address, where each trial is a
    session of its own. Tools find their trial's sink in `PERDURE_SINK`; `environment` sets more, with `{sink}` for it.
    `setup` runs in each process first; `person` answers what the program asks, when the default would not do; both
    are functions of the app. `mode` is the sink's (`{"fault": "cut"}`). `twice` also kills the process that recovers.
    """
    apps = [app] if isinstance(app, (str, ModuleType)) else list(app)
    with Lanes(*apps, count=lanes) as running:
        sweep = Sweep(running, bound, sink, store, setup=setup, person=person, environment=environment, mode=mode)
        return sweep.run(twice=twice)


class Sweep:
    """One program on one store; `run` sweeps it."""

    def __init__(
        self,
        lanes: Lanes,
        bound: Bound[Any],
        sink: Sink,
        store: str | Path,
        *,
        name: str | None = None,
        mode: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
        **functions: Callable[..., Any] | None,
    ) -> None:
        self.lanes = lanes
        self.sink = sink
        self._bound = bound
        self._mode = dict(mode or {})
        self.environment = dict(environment or {})
        self._functions = {kind: function and task_name(function) for kind, function in functions.items()}
        self._url = str(store) if "://" in str(store) else None
        self._folder = Path(store) if self._url is None else None
        self._template: str | None = None
        self._undisturbed: Undisturbed | None = None
        self.report = Report(name or bound.program.name)

    def run(
        self,
        *,
        choose: Callable[[list[str]], Iterable[int]] = lambda moments: range(1, len(moments) + 1),
        twice: bool = False,
        second: Callable[[int], Iterable[int]] | None = None,
    ) -> Report:
        """Sweep the chosen moments, by number from 1. `second` gives the moments of the recovery to kill as well."""
        begun = time.monotonic()
        moments = self.measure()
        self.report.moments = len(moments)
        again = second or ((lambda first: range(1 + first % 3, 40, 3)) if twice else (lambda _: ()))
        plans = [(first,) for first in choose(moments)] + [(a, b) for a in choose(moments) for b in again(a)]
        self.lanes.each([partial(self.trial, kills=kills) for kills in plans])
        self.report.seconds += time.monotonic() - begun
        return self.report

    def measure(self) -> list[str]:
        """Run undisturbed, twice; return the moments."""
        if self._undisturbed is not None:
            return self._undisturbed.moments
        if self._folder is not None and self._template is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._template = tempfile.mkdtemp(prefix="template-", dir=self._folder)
            self.lanes.each([lambda lane: lane.forking.run(MAKE, target=str(Path(self._template or "", "perdure.db")))])
        first, other = self.lanes.each([self.undisturbed, self.undisturbed])
        self._undisturbed = Undisturbed.of(first, other)
        return self._undisturbed.moments

    def undisturbed(self, lane: Lane) -> tuple[Ended, list[dict[str, Any]]]:
        with Place(self) as place:
            ended = lane.forking.run(LIVE, **place.told)
            if ended.error or ended.hung or ended.killed:
                raise ConfigError(f"The program does not come to its end even undisturbed:\n{ended.error}")
            return ended, self.sink.log(place.run)

    def trial(self, lane: Lane, kills: Sequence[int]) -> None:
        """Kill one process after the other, each at its moment; then let one live, and judge."""
        with Place(self) as place:
            wheres: list[str] = []
            template = place.told.pop("template")
            for number, fatal in enumerate(kills):
                ended = lane.forking.run(LIVE, **place.told, fatal=fatal, template=None if number else template)
                if ended.killed:
                    wheres += ended.told("last")
                if ended.error or ended.hung:
                    wheres.append(f"error: {ended.error or 'hung'}")
            landed = sum(lasting(self.sink.log(place.run)).values())
            recover = lane.forking.run if self._functions.get("setup") else lane.warm.run  # a setup may change the code
            last = recover(LIVE, **place.told, template=None if kills else template, times=2)
            self.conclude(place.run, " then ".join(wheres) or "nowhere", len(wheres), landed, last)

    def conclude(self, run: str, where: str, kills: int, landed: int, last: Ended, *, alive: bool = False) -> None:
        """Judge a trial, and put it into the report."""
        assert self._undisturbed is not None
        self.sink.run(run).release()  # what is in flight lands, sooner or later
        found = judge(self._undisturbed, self.sink.log(run), last, lonely=not alive)
        self.report.add(where, kills, landed, found)


class Place:
    """Where one trial happens: a run of the sink, a store or a session of its own, and what its lives are told."""

    def __init__(self, sweep: Sweep) -> None:
        self._sweep = sweep

    def __enter__(self) -> Self:
        sweep = self._sweep
        self.run = new_name("run")
        client = sweep.sink.run(self.run)
        if sweep._mode:
            client.mode(**sweep._mode)
        self._folder = None if sweep._folder is None else tempfile.mkdtemp(prefix="trial-", dir=sweep._folder)
        target = sweep._url or str(Path(self._folder or "", "perdure.db"))
        environment = {key: value.replace("{sink}", client.url) for key, value in sweep.environment.items()}
        self.told: dict[str, Any] = {
            "target": target,
            "session": self.run if sweep._url else "swept",
            "program": sweep._bound.program.name,
            "arguments": sweep._bound.arguments,
            "sink": client.url,
            "environment": environment,
            "template": sweep._template,
        } | sweep._functions
        self._client = client
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder or "", ignore_errors=True)
        self._client.forget()
