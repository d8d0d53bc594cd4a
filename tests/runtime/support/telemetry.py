"""What OpenTelemetry is told, kept in memory."""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler

from perdure import instrument


class Seen:
    """What was exported."""

    def __init__(self, sampler: Sampler | None = None) -> None:
        self._spans = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        tracers = self.tracers = TracerProvider(sampler)
        tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        instrument(tracers, MeterProvider([self._reader]))

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self._spans.get_finished_spans()

    def of(self, start: str) -> list[ReadableSpan]:
        return [one for one in self.spans if one.name.startswith(start)]

    def points(self, name: str) -> list[Any]:
        found = self._reader.get_metrics_data()
        metrics = [m for r in found.resource_metrics for s in r.scope_metrics for m in s.metrics] if found else []
        return [point for one in metrics if one.name == name for point in one.data.data_points]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})
