"""Crash sweeps: your own program, killed at each of its kill points, run again, and judged by what is outside.

A kill point is a fault point (`perdure.faults`): before and after every durable operation, and around every act. The
program first runs undisturbed, twice, which shows what it leaves outside and which points it has. Then, for each
point, a fresh process runs it and is killed there with SIGKILL; another process runs it to its end, and once more from
the start. What the sink then holds is compared with the undisturbed run:

    duplicated   more is outside than there should be
    lost         less is outside, or the program ends differently than it did undisturbed
    needless     a person was asked for something that could have been known
    blind        it was tried again without a check, an undo or a verdict of a person in between
    stuck        it did not come to its end
    broken       the ledger contradicts itself, or something was done without its approval

A sweep raises nothing for what it finds: the report lists it, and `report.ok` sums it up.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Self, TypeVar

from perdure.errors import ConfigError
from perdure.ids import new_name
from perdure.runtime.definitions.program import Bound
from perdure.testing.sink import Sink, lasting
from perdure.testing.sweep.expectation import Baseline, SinkLog, judge
from perdure.testing.sweep.fork_server import ChildProcess, ForkServer, ProcessResult, task_name
from perdure.testing.sweep.report import Report
from perdure.testing.sweep.server_pool import ServerPool, TrialServers

RUN, MAKE = "perdure.testing.sweep.trial:run_process", "perdure.testing.sweep.trial:make_store"
P = TypeVar("P")
T = TypeVar("T")


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
    """Kill a program at each of its kill points, run it again, and judge at the sink.

    `app` is the code: modules by name, path or themselves, imported by the processes that are killed. `store` is a
    folder in which each trial gets a SQLite store of its own, or a `postgresql://` address, where each trial is a
    session of its own. Tools find their trial's sink in `PERDURE_SINK`; `environment` sets more, with `{sink}` for it.
    `setup` runs first in each process; `person` answers the questions of the program where the default does not fit;
    both are functions of the app. `mode` is the sink's (`{"fault": "cut"}`). `twice` also kills the process that
    recovers. `lanes` is the number of trials that run at the same time.
    """
    apps = [app] if isinstance(app, (str, ModuleType)) else list(app)
    with ServerPool(*apps, count=lanes) as pool:
        sweep = Sweep(pool, bound, sink, store, setup=setup, person=person, environment=environment, mode=mode)
        return sweep.run(twice=twice)


def every_point(moments: list[str]) -> range:
    """Every kill point, by number from 1."""
    return range(1, len(moments) + 1)


def run_trials(
    pool: ServerPool,
    report: Report,
    measure: Callable[[], list[str]],
    choose: Callable[[list[str]], Iterable[P]],
    trial: Callable[[P, TrialServers], T],
) -> list[T]:
    """The runner of every sweep: measure an undisturbed run, then run a trial for each point that is chosen from it.

    Trials run several at a time and put what they find into the report themselves; results in the order of the points.
    """
    begun = time.monotonic()
    moments = measure()
    report.moments = len(moments)
    results = pool.each([partial(trial, point) for point in choose(moments)])
    report.seconds += time.monotonic() - begun
    return results


class Sweep:
    """One program on one store. `run` kills it; `run_trials` does anything else to it at points of your choice."""

    def __init__(
        self,
        pool: ServerPool,
        bound: Bound[Any],
        sink: Sink,
        store: str | Path,
        *,
        name: str | None = None,
        mode: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
        **functions: Callable[..., Any] | None,
    ) -> None:
        self.pool = pool
        self.sink = sink
        self.bound = bound
        self.mode = dict(mode or {})
        self.environment = dict(environment or {})
        self.functions = {kind: function and task_name(function) for kind, function in functions.items()}
        self.url = str(store) if "://" in str(store) else None
        self.folder = Path(store) if self.url is None else None
        self.template: str | None = None
        self.baseline: Baseline | None = None
        self.report = Report(name or bound.program.name)
        self.read_log: Callable[[str], SinkLog] = sink.log

    def run(
        self,
        *,
        choose: Callable[[list[str]], Iterable[int]] = every_point,
        twice: bool = False,
        second: Callable[[int], Iterable[int]] | None = None,
    ) -> Report:
        """Kill at the chosen points. `second` gives the points at which the recovery is killed as well."""
        again = second or ((lambda first: range(1 + first % 3, 40, 3)) if twice else (lambda _: ()))

        def plans(moments: list[str]) -> list[tuple[int, ...]]:
            return [(first,) for first in choose(moments)] + [(a, b) for a in choose(moments) for b in again(a)]

        self.run_trials(plans, self.kill)
        return self.report

    def run_trials(self, choose: Callable[[list[str]], Iterable[P]], trial: Callable[[P, TrialServers], T]) -> list[T]:
        """Run a trial for each point; it ends with `judge_trial`."""
        return run_trials(self.pool, self.report, self.measure, choose, trial)

    def measure(self) -> list[str]:
        """Run undisturbed, twice; return the kill points, by label."""
        if self.baseline is not None:
            return self.baseline.moments
        self.prepare()
        first, other = self.pool.each([self._run_undisturbed, self._run_undisturbed])
        self.baseline = Baseline.of(first, other)
        return self.baseline.moments

    def prepare(self) -> None:
        """Make the empty store that each trial begins with."""
        if self.folder is not None and self.template is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.template = tempfile.mkdtemp(prefix="template-", dir=self.folder)
            self.pool.call(MAKE, target=str(Path(self.template, "perdure.db")))

    def _run_undisturbed(self, servers: TrialServers) -> tuple[ProcessResult, list[dict[str, Any]]]:
        with TrialContext(self) as context:
            ended = context.run(servers.forking)
            if ended.error or ended.hung or ended.killed:
                raise ConfigError(f"The program does not come to its end even undisturbed:\n{ended.error}")
            return ended, self.read_log(context.sink_run)

    def kill(self, points: Sequence[int], servers: TrialServers) -> None:
        """Kill one process after another, each at its point; then let one run to the end, and judge."""
        with TrialContext(self) as context:
            wheres: list[str] = []
            for point in points:
                ended = context.run(servers.forking, fatal=point)
                if ended.killed:
                    wheres += ended.values("last")
                if ended.error or ended.hung:
                    wheres.append(f"error: {ended.error or 'hung'}")
            landed = sum(lasting(self.read_log(context.sink_run)).values())
            recovery = servers.second if self.functions.get("setup") else servers.warm  # a setup may change the code
            last = context.run(recovery, times=2)
            self.judge_trial(context.sink_run, " then ".join(wheres) or "nowhere", len(wheres), landed, last)

    def judge_trial(
        self, sink_run: str, where: str, kills: int, landed: int, last: ProcessResult, *, alive: bool = False
    ) -> None:
        """Judge a trial by its last process, and add it to the report. `alive`: an earlier process was not dead."""
        assert self.baseline is not None
        self.sink.run(sink_run).release()  # requests in flight land sooner or later
        found = judge(self.baseline, self.read_log(sink_run), last, alone=not alive)
        self.report.add(where, kills, landed, found)


class TrialContext:
    """What the processes of one trial share: a run of the sink, and a store or a session of their own."""

    def __init__(self, sweep: Sweep) -> None:
        self._sweep = sweep
        self.sink_run = new_name("run")
        self._client = sweep.sink.run(self.sink_run)

    def __enter__(self) -> Self:
        sweep = self._sweep
        if sweep.mode:
            self._client.mode(**sweep.mode)
        self._folder = None if sweep.folder is None else tempfile.mkdtemp(prefix="trial-", dir=sweep.folder)
        if self._folder is not None and sweep.template is not None:
            # Not in the process of the trial: one that is killed from outside would leave a part of the file.
            shutil.copytree(sweep.template, self._folder, dirs_exist_ok=True)
        self._environment = {key: value.replace("{sink}", self._client.url) for key, value in sweep.environment.items()}
        self._arguments: dict[str, Any] = {
            "target": sweep.url or str(Path(self._folder or "", "perdure.db")),
            "session": self.sink_run if sweep.url else "swept",
            "program": sweep.bound.program.name,
            "arguments": sweep.bound.arguments,
            "sink": self._client.url,
        } | sweep.functions
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder or "", ignore_errors=True)
        self._client.forget()

    def begin(self, server: ForkServer, *, environment: Mapping[str, str] | None = None, **more: Any) -> ChildProcess:
        """Start a process of this trial, with more of `trial.ProcessSpec`."""
        own = {"environment": self._environment | dict(environment or {})}
        return server.begin(RUN, **self._arguments | own | more)

    def run(self, server: ForkServer, *, environment: Mapping[str, str] | None = None, **more: Any) -> ProcessResult:
        """The same until it has ended."""
        return self.begin(server, environment=environment, **more).wait()
