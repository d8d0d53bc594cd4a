"""What OpenTelemetry is told about a session, over the death of its process too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from perdure import Session, program, tool
from perdure.runtime.telemetry import hook
from perdure.runtime.telemetry.trace_ids import root_id, trace_id
from tests.runtime.support.scripted_world import Outside, World
from tests.runtime.support.telemetry import Seen, attributes

pytestmark = pytest.mark.databases("sqlite", "postgres")
SECRET = "hunter2"


@pytest.fixture
def seen() -> Iterator[Seen]:
    yield Seen()
    hook.install(None)


async def test_spans_of_a_run_are_nested_in_its_trace(world: World, seen: Seen) -> None:
    act = Outside().tool("idempotent")

    @program
    async def traced(s: Session) -> int:
        return await s.do(act, n=1)

    view = await world.run(traced.bind())
    (run,), (call,), (attempt,) = seen.of("run "), seen.of("execute_tool"), seen.of("attempt")
    effect = await world.effect()
    assert run.parent is not None
    assert (run.context.trace_id, run.parent.span_id) == (trace_id(view.uid), root_id(view.uid))
    assert call.parent is not None
    assert attempt.parent is not None
    assert (call.parent.span_id, attempt.parent.span_id) == (run.context.span_id, call.context.span_id)
    assert {attributes(one)["gen_ai.conversation.id"] for one in seen.spans} == {view.uid}
    assert attributes(run)["perdure.session.id"] == "s"
    assert attributes(call)["gen_ai.tool.call.id"] == effect.id
    assert attributes(call)["perdure.state"] == "acknowledged"
    assert attributes(attempt)["perdure.outcome"] == "acknowledged"


async def test_runs_before_and_after_a_death_share_a_trace(world: World, seen: Seen) -> None:
    act = Outside("died").tool("probe")

    @program
    async def survives(s: Session) -> int:
        return await s.do(act, n=1)

    await world.dies(survives.bind())
    view = await world.again()
    assert view.status == "done"
    assert {one.context.trace_id for one in seen.spans} == {trace_id(view.uid)}
    runs, (recovery,) = seen.of("run "), seen.of("recover")
    assert len({one.context.span_id for one in runs}) == len(runs) >= 2
    assert recovery.parent is not None
    assert recovery.parent.span_id == runs[-1].context.span_id
    assert attributes(recovery)["perdure.state"] == "acknowledged"


async def test_child_session_links_to_the_trace_of_its_parent(world: World, seen: Seen) -> None:
    @program
    async def smaller(s: Session) -> int:
        return 1

    @program
    async def larger(s: Session) -> Any:
        return await s.child(smaller.bind())

    view = await world.run(larger.bind())
    (child,) = seen.of("run smaller")
    assert child.context.trace_id != trace_id(view.uid)
    assert [link.context.trace_id for link in child.links] == [trace_id(view.uid)]


async def test_errors_are_named_and_values_are_not_shown(world: World, seen: Seen) -> None:
    @tool(replay="idempotent", safe_errors=(ValueError,), retry=1)
    def refuses(word: str) -> str:
        raise ValueError(word)

    @program
    async def fails(s: Session, word: str) -> str:
        return await s.do(refuses, word=word)

    assert (await world.run(fails.bind(word=SECRET))).status in ("failed", "waiting")
    (attempt,) = seen.of("attempt")
    assert attributes(attempt)["perdure.outcome"] == "failed"
    assert SECRET not in "".join(one.to_json() for one in seen.spans)


async def test_metrics_count_attempts_and_runs(world: World, seen: Seen) -> None:
    act = Outside().tool("idempotent")

    @program
    async def measured(s: Session) -> Any:
        return await s.do(act, n=1) + await s.do(act, n=2)

    await world.run(measured.bind())
    (attempts,) = seen.points("perdure.attempts")
    assert (attempts.value, attempts.attributes["perdure.outcome"]) == (2, "acknowledged")
    (runs,) = seen.points("perdure.runs")
    assert runs.attributes["perdure.program"] == "measured"
    operations = {
        point.attributes["gen_ai.operation.name"] for point in seen.points("gen_ai.client.operation.duration")
    }
    assert operations == {"run", "execute_tool"}


@pytest.mark.parametrize("is_parent_based", [True, False])
@pytest.mark.parametrize(("ratio", "spans"), [(0.0, 0), (1.0, 3)])
async def test_the_sampler_of_the_application_decides(
    world: World, seen: Seen, ratio: float, spans: int, is_parent_based: bool
) -> None:
    by_ratio = TraceIdRatioBased(ratio)
    seen = Seen(ParentBased(by_ratio) if is_parent_based else by_ratio)
    act = Outside().tool("idempotent")

    @program
    async def sampled(s: Session) -> int:
        return await s.do(act, n=1)

    await world.run(sampled.bind())
    assert len(seen.spans) == spans
    assert [point.value for point in seen.points("perdure.attempts")] == [1]


def test_a_session_is_sampled_in_all_processes_or_in_none(seen: Seen) -> None:
    sampler = TraceIdRatioBased(0.5)
    uids = [f"{number:032x}" for number in range(40)]
    kept = []
    for _ in range(2):  # two processes
        seen = Seen(ParentBased(sampler))
        for uid in uids:
            with hook.span(hook.Kind.RUN, uid, "p"), hook.span(hook.Kind.TOOL, uid, "t"):
                pass
        kept.append([attributes(one)["gen_ai.conversation.id"] for one in seen.spans])
    assert kept[0] == kept[1]
    assert 0 < len(set(kept[0])) < len(uids)
    assert len(kept[0]) == 2 * len(set(kept[0]))


async def test_a_run_links_to_the_span_of_the_application(world: World, seen: Seen) -> None:
    @program
    async def inside(s: Session) -> int:
        return 1

    with seen.tracers.get_tracer("shop").start_as_current_span("order") as order:
        view = await world.run(inside.bind())
    (run,) = seen.of("run inside")
    assert run.context.trace_id == trace_id(view.uid)
    assert [link.context for link in run.links] == [order.get_span_context()]


async def test_without_a_recorder_nothing_is_made(world: World) -> None:
    first, second = hook.span(hook.Kind.RUN, "uid", "a"), hook.span(hook.Kind.TOOL, "uid", "b", effect="e")
    assert first is second
    with first as span:
        span.note(state="done")
