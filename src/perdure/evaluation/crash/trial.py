"""One trial: processes of one system that perform three effects at the sink, one of which is killed or fails.

begin     the sink gets the fault of this trial, for effect 2 only
run       a process runs until it ends, is killed, or asks; what is on disk is read and written down after each
kill      by the sink, by a tracer at a system call, at a fault point of ours, or of the database server
answer    a person who looks at the sink after every request in flight has landed answers what was asked
end       when a process ends with `done`, or after too many processes

Raw files: `processes.jsonl`, a line for each process; `sink.jsonl`, the log of the sink. Nothing here judges.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import msgspec

from perdure.evaluation import services
from perdure.evaluation.crash import outside
from perdure.evaluation.crash.system import ProcessOptions, SystemUnderTest, find_system, missing, tracer
from perdure.evaluation.run import trial_process
from perdure.evaluation.workload import Result, Trial
from perdure.testing.postgres import PostgresServer
from perdure.testing.proxy import wait_until
from perdure.testing.sink import WHERE, SinkClient, lasting
from perdure.testing.sink_process import read_log

EFFECTS, TARGET, PROCESSES = 3, 2, 8
LIMIT = 120.0  # seconds for one process, which takes one
CALLS = {"sync": "fsync,fdatasync", "rename": "rename,renameat2", "send": "sendto,sendmsg"}


class CrashParameters(msgspec.Struct, frozen=True, kw_only=True):
    """What a trial does. A kill is `none`, `between`, `sink:WHEN`, `syscall:CALLS:N`, `point:NAME` or `server:WHEN`.

    `again` kills the process that recovers, in the same way. `fault` is the sink's, while no process is killed.
    """

    ability: str
    kill: str = "none"
    again: str = "none"
    fault: str = "none"
    planted: bool = False


class ProcessRecord(msgspec.Struct, kw_only=True):
    """A line of `processes.jsonl`. `log` is how many lines the sink had written when the process had ended."""

    number: int
    kill: str
    ended: str
    asked: list[int] = []
    verdicts: dict[str, str] = {}
    log: int = 0
    state: str = ""
    said: dict[str, str] = {}
    rows: dict[str, int] = {}
    checkpoint: int = 0
    error: str = ""


def run(trial: Trial, folder: Path) -> Result:
    """Run a trial; its raw files are in `folder`."""
    parameters = msgspec.convert(trial.parameters, CrashParameters)
    if reason := missing(trial.system):
        return Result.not_run(trial, reason)
    traced = tracer() if "syscall" in parameters.kill + parameters.again else "not needed"
    if traced is None:
        return Result.not_run(trial, "strace is not installed, or may not trace here")
    if not parameters.kill.startswith("server:"):
        return _conducted(trial, folder, None)
    with PostgresServer() as server:
        return _conducted(trial, folder, server)


def _conducted(trial: Trial, folder: Path, server: PostgresServer | None) -> Result:
    sink = services.sink().run(f"{trial.id}-{os.getpid()}")
    system = find_system(trial, folder, sink.url, server)
    try:
        began = time.perf_counter()
        Conductor(trial, folder, sink, system, server).conduct()
        return Result.of(trial, measures={"seconds": time.perf_counter() - began}, versions=system.versions)
    finally:
        system.close()


class Conductor:
    """Starts the processes of one trial one after another, and writes down how each ended."""

    def __init__(
        self, trial: Trial, folder: Path, client: SinkClient, system: SystemUnderTest,
        server: PostgresServer | None,
    ) -> None:  # fmt: skip
        self._folder = folder
        self._parameters = msgspec.convert(trial.parameters, CrashParameters)
        self._system = system
        self._server = server
        self._chance = random.Random(trial.seed)
        self._client = client
        self._log_file = services.sink().folder / f"{client.url.rpartition('/')[2]}.jsonl"

    def conduct(self) -> None:
        parameters = self._parameters
        verdicts: dict[str, str] = {}
        for number in range(1, PROCESSES + 1):
            kill = {1: parameters.kill, 2: parameters.again}.get(number, "none")
            self._set_mode(kill, parameters.fault if number == 1 else "none")
            record = self._process(number, kill, verdicts)
            self._client.release()
            self._write(record)
            if record.ended == "done" or (record.ended == "asked" and not self._system.answers):
                break
            verdicts = self._answers(record.asked)
        if self._log_file.exists():  # nothing of a joint effect is at the sink
            shutil.copy(self._log_file, self._folder / "sink.jsonl")
        self._client.forget()

    def _set_mode(self, kill: str, fault: str) -> None:
        kind, _, when = kill.partition(":")
        fault = f"kill_{when}" if kind == "sink" else "late" if kill == "server:act" else fault
        delay = self._chance.uniform(0, 0.01) if when == "replied" else None  # of late requests: until released
        self._client.mode(
            fault=fault,
            keys=self._parameters.ability == "key",
            delay=delay,
            times=2 if kill == self._parameters.again else 1,  # it was met once before
            only=outside.body(TARGET),
        )

    def _process(self, number: int, kill: str, verdicts: dict[str, str]) -> ProcessRecord:
        record = ProcessRecord(number=number, kill=kill, ended="error", verdicts=verdicts)
        errors = self._folder / f"process-{number}.err"
        with errors.open("wb") as stderr:
            process = trial_process.start(
                self._command(number, kill, verdicts), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
                text=True, env=os.environ | {WHERE: self._client.url},
            )  # fmt: skip
            with process:
                try:
                    self._attend(process, number, kill)
                    said = process.communicate(timeout=LIMIT)[0].strip().splitlines()
                except (subprocess.TimeoutExpired, trial_process.TrialFailed):
                    record.ended, said = "hung", []
                finally:
                    trial_process.kill_group(process)
        if process.returncode == -signal.SIGKILL and record.ended != "hung":
            record.ended = "killed"
        elif process.returncode in (0, 3) and said:
            record = msgspec.structs.replace(record, **msgspec.json.decode(said[-1]))
        record.error = errors.read_text(errors="replace")[-1000:]
        record.log = len(self._log())
        if record.ended != "done" or self._parameters.ability == "joint":
            state = self._system.observe(EFFECTS)
            record.state, record.said, record.rows = state.text, state.said, state.rows
            record.checkpoint = state.checkpoint
        return record

    def _command(self, number: int, kill: str, verdicts: dict[str, str]) -> list[str]:
        kind, _, what = kill.partition(":")
        first = "middle" if number == 1 else "start"
        options = ProcessOptions(
            ability=self._parameters.ability,
            effects=EFFECTS,
            verdicts=verdicts,
            pause=self._pause(kill, first),
            point=what if kind == "point" else "",
            armed=first,
            inflight=2 if self._parameters.fault == "late_cut" else 0.2,
        )
        return self._system.command(options)

    def _pause(self, kill: str, first: str) -> str:
        """Where a process waits for the conductor. What a peer sends counts from the reply of the sink on."""
        if kill.startswith("syscall:send") and not self._system.answers:
            return "replied"
        return first if kill in ("between", "server:idle") or kill.startswith("syscall:") else ""

    def _attend(self, process: subprocess.Popen[str], number: int, kill: str) -> None:
        """Do from outside what this process is to meet."""
        kind, _, what = kill.partition(":")
        if kill == "between":
            self._paused(process)
            process.kill()
        elif kind == "syscall":
            self._paused(process)
            self._trace(process, what)
        elif kind == "server":
            self._kill_server(process, what)
        elif self._parameters.fault == "late_cut" and number == 1:
            self._await_post(process)
            self._client.release()

    def _paused(self, process: subprocess.Popen[str]) -> None:
        trial_process.first_line(process, "The process", LIMIT)

    def _continue(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()

    def _trace(self, process: subprocess.Popen[str], what: str) -> None:
        """Let a tracer kill the process when one of its threads makes the N-th call of a kind from now on."""
        kind, _, number = what.partition(":")
        calls = CALLS[kind]
        output = self._folder / "strace.txt"
        command = ["strace", "-f", "-q", "-p", str(process.pid), "-o", str(output), "-e", f"trace={calls}"]
        command += ["-e", f"inject={calls}:signal=KILL:when={number}"]
        with trial_process.start(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as strace:
            try:
                wait_until(lambda: _is_traced(process.pid) or strace.poll() is not None, "the tracer is attached")
                self._continue(process)
                process.wait(LIMIT)
            finally:
                strace.kill()

    def _kill_server(self, process: subprocess.Popen[str], when: str) -> None:
        """Kill the database server while an effect is under way, or between two; then start it again."""
        assert self._server is not None
        if when == "idle":
            self._paused(process)
            self._server.kill()
            self._server.start()
            self._continue(process)
            return
        self._await_post(process)
        self._server.kill()
        self._client.release()
        self._server.start()

    def _await_post(self, process: subprocess.Popen[str]) -> None:
        """Wait until the request for the target effect is held at the sink, or the process has ended."""
        target = outside.body(TARGET)
        wait_until(
            lambda: (
                process.poll() is not None
                or any(line["what"] == "posted" and line["body"] == target for line in self._log())
            ),
            "the effect is at the sink",
        )

    def _answers(self, asked: list[int]) -> dict[str, str]:
        """What a careful person answers: nothing is in flight any more, so the sink shows the truth."""
        there = lasting(self._log())
        found = {}
        for n in asked:
            name = f"{outside.PATH} {msgspec.json.encode(outside.body(n)).decode()}"
            found[str(n)] = "happened" if there[name] else "absent"
            self._client.note(verdict=found[str(n)], n=n)
        return found

    def _log(self) -> list[dict[str, Any]]:
        try:
            return read_log(self._log_file)
        except msgspec.DecodeError:  # the last line is being written
            return []

    def _write(self, record: ProcessRecord) -> None:
        with (self._folder / "processes.jsonl").open("ab") as file:
            file.write(msgspec.json.encode(record) + b"\n")


def _is_traced(pid: int) -> bool:
    """Whether every thread of a process has a tracer."""
    try:
        statuses = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/status")]
    except OSError:
        return False
    return bool(statuses) and all("TracerPid:\t0\n" not in status for status in statuses)
