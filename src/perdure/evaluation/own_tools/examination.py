"""The examination of one subject: undisturbed runs, kills at each of its kill points, and faults of the service.

undisturbed  twice, in processes with different hash seeds: what differs between them differs between runs
kills        at each kill point of the first run; a process with the other hash seed continues
recovery     the process that undoes an effect is killed too
faults       the service stores and answers with an error, cuts the connection, stores later, or refuses
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from perdure.errors import ConfigError, PerdureError
from perdure.evaluation.own_tools import process
from perdure.evaluation.own_tools.diagnosis import NOT_RUN, ToolVerdict, conclude
from perdure.evaluation.own_tools.evidence import Failure, TrialEvidence, UndisturbedRun
from perdure.evaluation.own_tools.guard import hosts_in, is_local
from perdure.evaluation.own_tools.outside_world import ObservedOutside
from perdure.evaluation.own_tools.process import ProcessSettings
from perdure.evaluation.own_tools.source_hints import hints
from perdure.evaluation.own_tools.subject import PROGRAM, TOOL, Subject
from perdure.runtime.definitions.program import PROGRAMS, Bound
from perdure.testing.sink import Sink, lasting
from perdure.testing.sweep.expectation import Baseline, SinkLog
from perdure.testing.sweep.fork_server import ForkServer, ProcessResult
from perdure.testing.sweep.report import Report
from perdure.testing.sweep.server_pool import ServerPool, TrialServers
from perdure.testing.sweep.sweep import Sweep, TrialContext

FAULTS: dict[str, dict[str, Any]] = {
    "an error after it had stored": {"fault": "error"},
    "a cut connection after it had stored": {"fault": "cut"},
    "a cut connection before it stored": {"fault": "late_cut", "delay": 0.02},
    "a refusal": {"fault": "refuse"},
}
DEEP = ("act.after", "act.begun")  # where the recovery is killed as well
RECOVERY = 40  # kill points of a recovery
PLAIN = ("move", "commit", "answer")  # of each durable operation; where many are alike, some are enough
REHEARSAL = f"{process.__name__}:rehearse"


@dataclass(kw_only=True)
class Laboratory:
    """What all subjects share: the processes, the outside and the settings."""

    pool: ServerPool
    sink: Sink
    folder: Path
    environment: dict[str, str]
    honours_keys: bool = True
    every: int = 1  # of the kill points that are not acts, one of so many is used
    observed: bool = False

    def sweep(self, subject: Subject, mode: dict[str, Any] | None = None) -> Sweep:
        """A sweep of one subject, under a mode of the sink."""
        return Sweep(
            self.pool, _bound(subject), self.sink, self.folder / subject.kind / subject.name, name=subject.name,
            mode={"keys": self.honours_keys, **(mode or {})}, environment=self.environment,
            setup=process.prepare, person=process.answer,
        )  # fmt: skip


@contextmanager
def laboratory(
    apps: Sequence[str], folder: Path, settings: ProcessSettings, *, environment: dict[str, str], count: int = 0,
    **more: Any,
) -> Iterator[Laboratory]:  # fmt: skip
    """Start the processes. An address in the environment that is not on this machine is refused."""
    for name, value in environment.items():
        for host in hosts_in(value):
            if not is_local(host) and host not in settings.allowed:
                hint = f"Use a sink (`--env {name}={{sink}}`), or allow it with `--allow {host}`."
                raise ConfigError(f"{name} names {host}, which is not on this machine.", hint=hint)
    whole = settings.environment() | environment
    with ExitStack() as stack:
        started = partial(ServerPool, *apps, rehearsal=REHEARSAL, apart=True, environment=settings.environment())
        if not settings.observe:
            pool = stack.enter_context(started(count=count))
            sink = stack.enter_context(Sink())
        else:
            pool = stack.enter_context(started(count=1))
            watch = stack.enter_context(started(count=1))
            sink = stack.enter_context(ObservedOutside(partial(_observe, watch, whole)))
        yield Laboratory(
            pool=pool, sink=sink, folder=folder, environment=whole, observed=bool(settings.observe), **more
        )


def _observe(pool: ServerPool, environment: dict[str, str]) -> list[Any]:
    found: list[Any] = pool.call(process.observe_here, environment=environment)
    return found


def examine(laboratory: Laboratory, subject: Subject) -> ToolVerdict:
    """The verdict on one subject."""
    not_run = ToolVerdict(name=subject.name, kind=subject.kind, rule=subject.rule, verdict=NOT_RUN)
    if subject.reason:
        return msgspec.structs.replace(not_run, reason=subject.reason)
    sweep = laboratory.sweep(subject)
    try:
        evidence = _undisturbed(sweep, subject.kind)
    except PerdureError as error:
        return msgspec.structs.replace(not_run, reason=last_line(error.message))
    if subject.kind == PROGRAM:
        evidence.notes += hints(PROGRAMS[subject.name].function)
    _kill(laboratory, subject, sweep, evidence)
    if not laboratory.observed:
        _fail(laboratory, subject, sweep, evidence)
    return conclude(subject, evidence, honours_keys=laboratory.honours_keys)


def last_line(text: str) -> str:
    """The last line of a traceback says what happened, after the name of the error."""
    line = (text.strip().splitlines() or [""])[-1]
    return re.sub(r"^(it does not end even undisturbed: )?perdure\.[\w.]+: ", "", line)


def _bound(subject: Subject) -> Bound[Any]:
    if subject.kind == PROGRAM:
        return Bound(PROGRAMS[subject.name], subject.arguments)
    return process.perdure_single_call.bind(subject.name, subject.arguments)


def _undisturbed(sweep: Sweep, kind: str) -> TrialEvidence:
    """Run it twice, with different hash seeds, one after the other."""
    sweep.prepare()

    def both(servers: TrialServers) -> list[tuple[ProcessResult, SinkLog]]:
        return [_once(sweep, servers.forking), _once(sweep, servers.second)]

    [[one, other]] = sweep.pool.each([both])
    first, second = _run_of(*one), _run_of(*other)
    evidence = TrialEvidence(first=first, second=second)
    if first.outside != second.outside and (kind == TOOL or first.effects == second.effects):
        evidence.notes.append(
            "What it sends differs between runs, so trials are compared by number and not by content."
        )
        sweep.read_log = partial(_without_content, sweep.sink)
        one, other = (one[0], _blank(one[1])), (other[0], _blank(other[1]))
    sweep.baseline = Baseline.of(one, other)
    return evidence


def _once(sweep: Sweep, server: ForkServer) -> tuple[ProcessResult, SinkLog]:
    with TrialContext(sweep) as context:
        ended = context.run(server)
        if ended.error or ended.hung or ended.killed:
            raise ConfigError(f"it does not end even undisturbed: {last_line(ended.error or 'it hung')}")
        return ended, sweep.sink.log(context.sink_run)


def _without_content(sink: Sink, run: str) -> SinkLog:
    return _blank(sink.log(run))


def _blank(log: SinkLog) -> SinkLog:
    return [line | {"body": None} if "body" in line else line for line in log]


def _run_of(ended: ProcessResult, log: SinkLog) -> UndisturbedRun:
    ledger = [one for one in ended.result["ledger"]["effects"] if not one["tool"].endswith(".undo")]
    effects = [f"{one['tool']} {msgspec.json.encode(one['intent'], order='sorted').decode()}" for one in ledger]
    return UndisturbedRun(moments=ended.result["moments"], effects=effects, outside=lasting(log), log=log)


class FailureReport(Report):
    """The report of a sweep, which also keeps each failure apart."""

    def __init__(self, name: str, fault: str = "") -> None:
        super().__init__(name)
        self.fault = fault
        self.found: list[Failure] = []

    def add(self, where: str, kills: int, landed: int, found: Mapping[str, Sequence[str]]) -> None:
        super().add(where, kills, landed, found)
        self.found += [
            Failure(where, self.fault, head, last_line(sentences[0])) for head, sentences in found.items() if sentences
        ]


def _kill(laboratory: Laboratory, subject: Subject, sweep: Sweep, evidence: TrialEvidence) -> None:
    moments, report = evidence.first.moments, FailureReport(subject.name)
    sweep.report = report
    plain = [n for n, label in enumerate(moments, 1) if label.partition(".")[0] in PLAIN]
    kept = set(plain[:: laboratory.every])
    points = [n for n in range(1, len(moments) + 1) if n in kept or n not in plain]
    deep = [n for n in points if moments[n - 1] in DEEP] if subject.rule == "compensate" else []
    plans = [(n,) for n in points] + [(n, again) for n in deep for again in range(1, RECOVERY, laboratory.every)]
    sweep.pool.each([partial(sweep.kill, plan) for plan in plans])
    evidence.kills = report.kills
    evidence.failures += report.found


def _fail(laboratory: Laboratory, subject: Subject, clean: Sweep, evidence: TrialEvidence) -> None:
    """Let the service fail once for each body; nothing is killed."""

    def one(fault: str, servers: TrialServers) -> list[Failure]:
        sweep = laboratory.sweep(subject, FAULTS[fault])
        sweep.template, sweep.baseline, sweep.read_log = clean.template, clean.baseline, clean.read_log
        sweep.report = report = FailureReport(subject.name, fault)
        sweep.kill((), servers)
        return report.found

    met = any(line["what"] == "posted" for line in evidence.first.log)
    for found in clean.pool.each([partial(one, fault) for fault in FAULTS] if met else []):
        evidence.failures += found
    evidence.faults = len(FAULTS) if met else 0
