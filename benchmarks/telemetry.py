"""What telemetry costs: the reports of an effect while no recorder is installed, as a part of the effect; and with
spans. The store is in memory, so that no disk hides the cost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider

from benchmarks.measure import Budget, Contestant, Line, Table, contest
from benchmarks.programs import bench, bench_effects
from perdure import Bound, instrument
from perdure.evaluation.measurement import MICROSECONDS
from perdure.runtime.telemetry import hook
from perdure.runtime.telemetry.hook import Kind, span

CALLS, TIMES, TURNS = 20_000, 40, 4


def tables(_: Path, rounds: int) -> Iterator[Table]:
    yield Table("telemetry in memory, to an effect without it", lines(rounds))


def lines(rounds: int) -> Iterator[Line]:
    with bench("memory:") as plain:

        def effects() -> Bound[int]:
            return bench_effects.bind(count=TIMES)

        def with_spans() -> float:
            instrument(TracerProvider(), MeterProvider())
            try:
                return plain.p50(effects())
            finally:
                hook.install(None)

        contestants = [
            Contestant("what an effect reports, telemetry off", reports, Budget("≤", 0.01)),
            Contestant("s.do with spans and measurements made", with_spans),
        ]
        yield from contest(MICROSECONDS, lambda: plain.p50(effects()), contestants, rounds=rounds, turns=TURNS)


def reports() -> float:
    """The seconds that the reports of one effect take: the call and its attempt."""
    began = time.perf_counter()
    for _ in range(CALLS):
        with span(Kind.TOOL, "uid", "act", effect="e") as call:
            with span(Kind.ATTEMPT, "uid", "act", effect="e", attempt=1) as attempt:
                attempt.note(outcome="acknowledged")
            call.note(state="acknowledged")
    return (time.perf_counter() - began) / CALLS
