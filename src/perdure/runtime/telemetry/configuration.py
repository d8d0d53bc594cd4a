"""Telemetry as it is configured: by an application with providers of its own, or by the environment."""

from __future__ import annotations

import os
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from perdure.errors import ConfigError
from perdure.runtime.telemetry import hook

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

MISSING = "Telemetry needs a package that is not installed."
INSTALL = "Run `pip install 'perdure[telemetry]'`."
EXPORTER = "otlp"  # the default of OpenTelemetry


def instrument(tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None) -> None:
    """Report runs, model calls, tool calls, attempts and recoveries to OpenTelemetry from now on.

    Without providers the global ones of OpenTelemetry are used. The names of spans and metrics follow its conventions
    for generative AI. A later call replaces the providers.
    """
    try:
        from perdure.runtime.telemetry.otel_recorder import OtelRecorder
    except ImportError:
        raise ConfigError(MISSING, hint=INSTALL) from None
    hook.install(OtelRecorder(tracer_provider, meter_provider))


def instrument_from_environment() -> None:
    """The same for a process of the command line, with the exporters that the variables of OpenTelemetry name."""
    try:
        from opentelemetry import metrics, trace
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise ConfigError(MISSING, hint=INSTALL) from None
    named = os.environ.get("OTEL_SERVICE_NAME") or "perdure"
    resource = Resource.create({"service.name": named})
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):  # the program has not set one
        tracers = TracerProvider(resource=resource)
        for exporter in _exporters("OTEL_TRACES_EXPORTER", "opentelemetry_traces_exporter"):
            tracers.add_span_processor(BatchSpanProcessor(exporter))
        trace.set_tracer_provider(tracers)
        readers = [
            PeriodicExportingMetricReader(one)
            for one in _exporters("OTEL_METRICS_EXPORTER", "opentelemetry_metrics_exporter")
        ]
        metrics.set_meter_provider(MeterProvider(readers, resource))
    instrument()


def _exporters(variable: str, group: str) -> list[Any]:
    """The exporters that a variable names, separated by commas; `none` is none."""
    made = []
    for name in (os.environ.get(variable) or EXPORTER).split(","):
        if (name := name.strip()) in ("", "none"):
            continue
        found = list(entry_points(group=group, name=name)) or list(entry_points(group=group, name=f"{name}_proto_http"))
        if not found:
            raise ConfigError(
                f"{variable} names {name!r:.40}, and no such exporter is installed.",
                hint="Install its package, for otlp `opentelemetry-exporter-otlp`, or set the variable to `none`.",
            )
        made.append(found[0].load()())
    return made
