"""Reports as OpenTelemetry traces and metrics, with the names of its conventions for generative AI.

| report   | span                                | kind     |
|----------|-------------------------------------|----------|
| run      | `invoke_agent NAME`, or `run NAME`  | internal |
| chat     | `chat MODEL`                        | client   |
| tool     | `execute_tool NAME`                 | internal |
| attempt  | `attempt NAME`                      | client   |
| recovery | `recover NAME`                      | internal |
| request  | `request NAME`                      | server   |

The first span of a session in a process has no parent that was exported. The sampler of the application decides about
it by the id of the trace, so every process decides the same. It links to the span of the application, or of the client,
that it is made in.

Each has `gen_ai.conversation.id`, the uid of the session. What unwinds a run (a wait, a cancellation) is no error. Of
errors only the type or the code is reported: their texts may quote arguments.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from perdure.clock import SECOND, SystemClock
from perdure.errors import PerdureError, Suspended
from perdure.runtime.run.interruption import Interrupted
from perdure.runtime.telemetry.hook import Kind
from perdure.runtime.telemetry.trace_ids import root_id, trace_id

NAME = "perdure"
PROPAGATOR = TraceContextTextMapPropagator()
VERSION: str = sys.modules[NAME].__version__
SPAN_KINDS = {Kind.CHAT: SpanKind.CLIENT, Kind.ATTEMPT: SpanKind.CLIENT, Kind.REQUEST: SpanKind.SERVER}
OPERATIONS = {
    Kind.CHAT: "chat", Kind.TOOL: "execute_tool", Kind.ATTEMPT: "attempt", Kind.RECOVERY: "recover",
    Kind.REQUEST: "request",
}  # fmt: skip
OF_TOOLS = (Kind.TOOL, Kind.ATTEMPT, Kind.RECOVERY)
CONVERSATION = "gen_ai.conversation.id"
OPERATION = "gen_ai.operation.name"
UNWINDS = (Suspended, Interrupted, asyncio.CancelledError, GeneratorExit)
FACTS = {  # the attribute of each fact; one that is not named here is perdure.NAME
    "session": "perdure.session.id",
    "effect": "gen_ai.tool.call.id",
    "tool": "gen_ai.tool.name",
    "agent": "gen_ai.agent.name",
    "provider": "gen_ai.provider.name",
    "model": "gen_ai.request.model",
    "answered_by": "gen_ai.response.model",
    "stop": "gen_ai.response.finish_reasons",
    "tokens_in": "gen_ai.usage.input_tokens",
    "tokens_out": "gen_ai.usage.output_tokens",
}
DURATIONS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304)


class OtelSpan:
    """One span, with the facts that its measurements need too."""

    def __init__(self, inner: trace.Span, facts: dict[str, Any]) -> None:
        self._inner = inner
        self.facts: dict[str, Any] = {}
        self.note(**facts)

    def note(self, **facts: Any) -> None:
        for name, value in facts.items():
            if value is None:
                continue
            self.facts[name] = value
            shown = [str(value)] if name == "stop" else value if isinstance(value, bool | int | float) else str(value)
            self._inner.set_attribute(FACTS.get(name, f"perdure.{name}"), shown)

    def fail(self, error: BaseException) -> None:
        self.facts["error"] = kind = error.code if isinstance(error, PerdureError) else type(error).__name__
        self._inner.set_attribute("error.type", kind)
        self._inner.set_status(Status(StatusCode.ERROR))


class OtelRecorder:
    """Makes spans and measurements with the providers of the application, or with the global ones."""

    def __init__(self, tracers: trace.TracerProvider | None, meters: metrics.MeterProvider | None) -> None:
        self._tracer = (tracers or trace.get_tracer_provider()).get_tracer(NAME, VERSION)
        meter = (meters or metrics.get_meter_provider()).get_meter(NAME, VERSION)
        self._boot = SystemClock().boot
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration", "s", "How long an operation takes.",
            explicit_bucket_boundaries_advisory=DURATIONS,
        )  # fmt: skip
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage", "{token}", "Tokens of model calls.", explicit_bucket_boundaries_advisory=TOKENS
        )
        self._runs = meter.create_counter("perdure.runs", "{run}", "Runs of sessions that have ended.")
        self._attempts = meter.create_counter("perdure.attempts", "{attempt}", "Attempts of effects, by outcome.")
        self._recoveries = meter.create_counter("perdure.recoveries", "{effect}", "Effects that were recovered.")

    @contextmanager
    def span(self, kind: Kind, uid: str, name: str, facts: dict[str, Any]) -> Iterator[OtelSpan]:
        began = self._boot()
        operation = OPERATIONS.get(kind) or ("invoke_agent" if "agent" in facts else "run")
        attributes = {OPERATION: operation, CONVERSATION: uid}
        if kind in OF_TOOLS:
            facts["tool"] = name
        title, links = f"{operation} {name}", _links(uid, facts.pop("parent", None), facts.pop("traceparent", None))
        with self._tracer.start_as_current_span(
            title, self._context_of(uid, title, attributes), SPAN_KINDS.get(kind, SpanKind.INTERNAL), attributes,
            links, record_exception=False, set_status_on_exception=False,
        ) as inner:  # fmt: skip
            made = OtelSpan(inner, facts)
            try:
                yield made
            except BaseException as raised:
                if not isinstance(raised, UNWINDS):
                    made.fail(raised)
                raise
            finally:
                self._measure(kind, operation, name, made.facts, (self._boot() - began) / SECOND)

    def _context_of(self, uid: str, title: str, attributes: dict[str, Any]) -> Context | None:
        """The context for a span of a session: the current span if it is of the same trace, else the root of it."""
        if trace.get_current_span().get_span_context().trace_id == trace_id(uid):
            return None
        root = _root(uid, is_sampled=self._samples(uid, title, attributes))
        return trace.set_span_in_context(NonRecordingSpan(root), Context())

    def _samples(self, uid: str, title: str, attributes: dict[str, Any]) -> bool:
        """Whether the sampler of the application takes the trace of a session, asked as for a span without a parent."""
        sampler = getattr(getattr(self._tracer, "_tracer", self._tracer), "sampler", None)  # of a proxy, the real one
        if sampler is None:
            return True
        found = sampler.should_sample(Context(), trace_id(uid), title, SpanKind.INTERNAL, attributes, ())
        return bool(found.decision.is_sampled())

    def _measure(self, kind: Kind, operation: str, name: str, facts: dict[str, Any], seconds: float) -> None:
        if kind is Kind.REQUEST:  # `/metrics` of the service counts them
            return
        error = {"error.type": facts["error"]} if "error" in facts else {}
        if kind is Kind.ATTEMPT:
            outcome = str(facts.get("outcome", "unknown"))
            self._attempts.add(1, {"gen_ai.tool.name": name, "perdure.outcome": outcome})
            return
        if kind is Kind.RECOVERY:
            self._recoveries.add(1, {"gen_ai.tool.name": name, "perdure.state": str(facts.get("state", ""))} | error)
            return
        about = {OPERATION: operation} | error
        for fact in ("provider", "model", "tool", "agent", "program"):
            if fact in facts:
                about[FACTS.get(fact, f"perdure.{fact}")] = str(facts[fact])
        self._duration.record(seconds, about)
        if kind is Kind.RUN:
            self._runs.add(1, about)
        for fact, word in (("tokens_in", "input"), ("tokens_out", "output")):
            if fact in facts:
                self._tokens.record(facts[fact], about | {"gen_ai.token.type": word})

    def ids(self) -> tuple[str, str] | None:
        found = trace.get_current_span().get_span_context()
        return (f"{found.trace_id:032x}", f"{found.span_id:016x}") if found.is_valid else None


def _links(uid: str, parent: str | None, traceparent: str | None) -> list[Link]:
    """A session has a trace of its own. It links to that of its parent, and to the span that the caller is in."""
    links = [] if parent is None else [Link(_root(parent), {"perdure.link": "parent"})]
    own = {trace_id(uid)} | {one.context.trace_id for one in links}
    if traceparent is not None:
        client = trace.get_current_span(PROPAGATOR.extract({"traceparent": traceparent}, Context())).get_span_context()
        links += [Link(client, {"perdure.link": "client"})] if client.is_valid else []
    current = trace.get_current_span().get_span_context()
    if current.is_valid and current.trace_id not in own:
        links.append(Link(current, {"perdure.link": "caller"}))
    return links


def _root(uid: str, *, is_sampled: bool = True) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if is_sampled else TraceFlags.DEFAULT)
    return SpanContext(trace_id(uid), root_id(uid), is_remote=True, trace_flags=flags)
