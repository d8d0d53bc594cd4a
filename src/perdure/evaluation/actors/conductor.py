"""Runs the processes of one trial of the actors, and measures what they recorded."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from perdure.evaluation.actors.family import ActorTrial
from perdure.evaluation.actors.process import SESSION_ROLES, TOGETHER, conclude, prepare
from perdure.evaluation.measurement import percentile
from perdure.evaluation.run import trial_process
from perdure.evaluation.run.trial_process import LIMIT, TrialFailed

PATIENCE, POLL = 60.0, 0.05  # seconds without progress after which a trial is given up
CONTROL_PATIENCE = 1.0  # without the lock, the message that ends a session may be lost


def conduct(trial: ActorTrial, *, together: bool = False) -> dict[str, float]:
    """Run the actors to their end; returns what was measured."""
    trial.meeting.mkdir()
    folder = Path(trial.folder)
    if together:
        run_processes(trial, [(TOGETHER, TOGETHER)])
    else:
        asyncio.run(prepare(trial))
        others = [(role, role) for role in SESSION_ROLES if role != "worker"]
        run_processes(trial, [*(("worker", f"worker-{n}") for n in range(trial.workers)), *others])
        asyncio.run(conclude(trial))
    return measure(folder)


def start(trial: ActorTrial, role: str, name: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "perdure.evaluation.actors.process", role, name, _json(trial)]
    with Path(trial.folder, f"errors-{name}.txt").open("wb") as errors:
        return trial_process.start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)


def run_processes(trial: ActorTrial, roles: Sequence[tuple[str, str]]) -> None:
    """Start the actors, let them begin together, and wait until all have ended."""
    with ExitStack() as stack:
        processes = {name: stack.enter_context(start(trial, role, name)) for role, name in roles}
        for process in processes.values():
            stack.callback(process.kill)
        for name, process in processes.items():
            if not trial_process.first_line(process, f"The process {name}"):
                finish(process, name)
        for process in processes.values():
            assert process.stdin is not None
            process.stdin.write(b"\n")
            process.stdin.close()
        _await(trial, processes)
        for name, process in processes.items():
            finish(process, name)


def _await(trial: ActorTrial, processes: dict[str, subprocess.Popen[bytes]]) -> None:
    """Wait for the end. If the sessions make no progress any more, tell the actors to leave."""
    patience = PATIENCE if trial.lock else CONTROL_PATIENCE
    seen, since = -1, time.monotonic()
    while any(process.poll() is None for process in processes.values()):
        time.sleep(POLL)
        acts = sum(path.stat().st_size for path in Path(trial.folder).glob("acts-*.jsonl"))
        appenders = [process for name, process in processes.items() if name in ("scheduler", "canceller")]
        if acts != seen or any(process.poll() is None for process in appenders):
            seen, since = acts, time.monotonic()
        elif time.monotonic() - since > patience:
            trial.given_up.touch()


def finish(process: subprocess.Popen[bytes], name: str) -> None:
    """Wait for a process, which must end without an error."""
    if process.wait(LIMIT) != 0:
        raise TrialFailed(f"The process {name} ended with {process.returncode}.")
    if process.stdout is not None:
        process.stdout.close()


def measure(folder: Path) -> dict[str, float]:
    """Appends in a second, and the latency of each actor in seconds, from the histories."""
    taken: dict[str, list[float]] = defaultdict(list)
    first, last, appends, reads = 2**62, 0, 0, 0
    for path in folder.glob("history-*.jsonl"):
        for line in path.read_bytes().splitlines():
            one = msgspec.json.decode(line)
            if one.get("outcome", "ok") != "ok":
                continue
            taken[one["actor"].split("-")[0]].append((one["returned"] - one["called"]) / 1e6)
            is_append = one["op"] == "append"
            appends, reads = appends + is_append, reads + (not is_append)
            if is_append:
                first, last = min(first, one["called"]), max(last, one["returned"])
    seconds = max(1, last - first) / 1e6
    found = {"seconds": seconds, "appends": appends, "reads": reads, "appends_per_second": appends / seconds}
    for actor, times in taken.items():
        for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
            found[f"{actor}.{name}"] = percentile(times, share)
    return found


def _json(trial: ActorTrial) -> str:
    return msgspec.json.encode(trial).decode()
