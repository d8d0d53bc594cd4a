"""The session that runs an evaluation: one step per batch of trials. It can be killed anywhere and run again.

batch     a step runs trials, side by side where the workload allows it; each leaves synced raw files
kill      a batch that was interrupted runs again, and skips the trials that have happened
error     a trial that raises is void, and the others run; an evaluation that failed, on a full disk for example, is
          continued by a session with the next number
left      processes of an interrupted trial that still run are killed when the session continues
report    results, verdicts and report are computed from the raw files alone, in no step: they can always be made again
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

from perdure.errors import ConfigError
from perdure.evaluation import services
from perdure.evaluation.catalogue import find_workload
from perdure.evaluation.results import Plan, read_plan, result_of, run_trial, seeded
from perdure.evaluation.run import trial_process
from perdure.evaluation.workload import Trial, Workload
from perdure.runtime.definitions.program import program
from perdure.runtime.runtime import open as open_runtime
from perdure.runtime.runtime import run
from perdure.runtime.session import Session

ID, BATCH = "evaluation", 64
Progress = Callable[[str, int, int], None]  # the workload, trials that have happened, trials in all

_home = Path()  # of the evaluation that this process runs; the session does not name it, so that it can be moved
_progress: Progress | None = None


def planned(plan: Plan) -> Iterator[tuple[Workload, list[Trial]]]:
    """Every workload of a plan with its trials."""
    for name in plan.workloads:
        workload = find_workload(name)
        trials = [seeded(trial, plan) for trial in workload.trials(plan.form, plan.rounds)]
        yield workload, [trial for trial in trials if not plan.only or trial.id in plan.only]


async def run_batch(name: str, ids: list[str]) -> int:
    """Run these trials of a workload; those that have happened are skipped."""
    home, plan = _home, _plan()
    workload = find_workload(name)
    trials = {trial.id: trial for workload, own in planned(plan) if workload.name == name for trial in own}

    def one(id: str) -> None:
        run_trial(home, workload, trials[id])
        if _progress is not None:
            _progress(name, sum(result_of(home, name, id) is not None for id in trials), len(trials))

    def all_of_them() -> None:
        with ThreadPoolExecutor(workload.lanes) as pool:
            list(pool.map(one, ids))

    await asyncio.to_thread(all_of_them)
    return len(ids)


def _plan() -> Plan:
    plan = read_plan(_home)
    if plan is None:
        raise ConfigError(f"{_home} holds no evaluation.", hint="Start it with `perdure evaluate`.")
    return plan


@program
async def perdure_evaluation(s: Session) -> int:
    """Run every trial of the plan in the folder of this process."""
    plan = _plan()
    trial_process.kill_left_over(plan.uid)
    happened = 0
    for workload, trials in planned(plan):
        ids = [trial.id for trial in trials]
        for start in range(0, len(ids), BATCH):
            happened += await s.step(workload.name, run_batch, workload.name, ids[start : start + BATCH])
    return happened


def run_evaluation(folder: Path, progress: Progress | None = None) -> int:
    """Run or continue the evaluation in a folder; returns the number of trials."""
    global _home, _progress
    _home, _progress = folder, progress
    plan, store = _plan(), folder / "session.db"
    trial_process.set_mark(plan.uid)
    try:
        with services.running():
            return run(perdure_evaluation.bind(), id=asyncio.run(_session_id(store)), store=store)
    finally:
        trial_process.set_mark("")
        _home, _progress = Path(), None


async def _session_id(store: Path) -> str:
    """The session that continues: the first, or the one after those that have ended before every trial has happened."""
    all_happened = all(result_of(_home, own.name, one.id) for own, trials in planned(_plan()) for one in trials)
    over = ("failed", "cancelled") if all_happened else ("failed", "cancelled", "done")
    async with open_runtime(store) as runtime:
        ended = {one.id async for one in runtime.sessions() if one.status in over}
    return next(id for number in count(1) if (id := ID if number == 1 else f"{ID}-{number}") not in ended)
