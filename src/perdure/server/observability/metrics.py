"""`/metrics`: the metrics of a store and of this process, for Prometheus.

Those of the store are read from it at most once in `FRESH` seconds.
It needs a role that may read metrics (auditor, operator or owner) and the scope `*`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from perdure import __version__
from perdure.clock import SECOND
from perdure.domain.caller import Caller, Verb
from perdure.domain.wait import FOR_A_PERSON
from perdure.errors import NotAllowed, NotAuthenticated
from perdure.runtime.runtime import Runtime
from perdure.server.observability.request_metrics import RequestMetrics
from perdure.store.moves import metrics
from perdure.store.moves.metrics import StoreMetrics

FRESH = 2.0


class MetricsPage:
    """The page, and the numbers that it showed last."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = asyncio.Lock()
        self._read_at: int | None = None
        self._numbers: StoreMetrics | None = None

    async def answer(self, request: Request) -> Response:
        check_rights(request.state.caller)
        content, media = render(
            await self._fresh(),
            request.headers.get("accept", ""),
            _Process(request.app.state.request_metrics, request.app.state.admission.open),
        )
        return Response(content, media_type=media)

    async def _fresh(self) -> StoreMetrics:
        clock = self._runtime.store.clock
        async with self._lock:  # many scrapers are one read
            now = clock.boot()
            if self._numbers is None or self._read_at is None or now - self._read_at > FRESH * SECOND:
                self._numbers, self._read_at = await self._runtime.store.read(metrics.read), now
            return self._numbers


def check_rights(caller: Caller | None) -> None:
    if caller is None:
        raise NotAuthenticated("This needs a token.")
    if not caller.may(Verb.READ_METRICS):
        raise NotAllowed(f"{caller.name} may not do this here ({Verb.READ_METRICS}).")


def render(numbers: StoreMetrics, accept: str = "", process: Collector | None = None) -> tuple[bytes, str]:
    """The numbers as Prometheus reads them, and the media type."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(numbers))
    if process is not None:
        registry.register(process)
    encode, media = choose_encoder(accept)
    return encode(registry), media


class _Collector(Collector):
    """The numbers as families of gauges."""

    def __init__(self, numbers: StoreMetrics) -> None:
        self._numbers = numbers

    def collect(self) -> Iterator[GaugeMetricFamily]:
        found = self._numbers
        yield _family("info", "The version that answers.", "version", {__version__: 1})
        yield _family("sessions", "Sessions that are open or have failed, by status.", "status", found.sessions)
        yield _family(
            "sessions_ended_recently", "Sessions that changed last in the last five minutes, by how they ended.",
            "status", found.ended,
        )  # fmt: skip
        yield _family("queue_ready_sessions", "Sessions that are ready, by queue.", "queue", found.queues)
        waits = {kind: one.count for kind, one in found.waits.items()}
        yield _family("open_waits", "What sessions wait for, by kind.", "kind", waits)
        ages = {kind: (found.at - one.since) / SECOND for kind, one in found.waits.items()}
        yield _family("oldest_wait_seconds", "How long the oldest open wait has lasted, by kind.", "kind", ages)
        people = {str(kind): waits.get(kind, 0) for kind in sorted(FOR_A_PERSON)}
        yield _family("waiting_for_people", "Waits that only a person can end, by kind.", "kind", people)
        yield _family(
            "effects_recently", "Effects that were planned in the last five minutes, by state.", "state", found.effects
        )
        yield _gauge("effects_in_doubt", "Effects whose outcome a person must tell.", found.doubts)
        oldest = 0 if found.oldest_doubt is None else (found.at - found.oldest_doubt) / SECOND
        yield _gauge("oldest_doubt_seconds", "How long the oldest effect has been in doubt.", oldest)
        yield _family("processes", "Processes with a sign of life in the last minute.", "role", found.workers)
        yield _gauge("notifications_pending", "Notifications that are not sent yet.", found.notifications)


class _Process(Collector):
    """The numbers of the process that answers, which are not those of others beside it."""

    def __init__(self, requests: RequestMetrics, streams: int) -> None:
        self._requests = requests
        self._streams = streams

    def collect(self) -> Iterator[Metric]:
        about = "Requests that this process has answered, and the seconds that they took."
        made = SummaryMetricFamily("perdure_request_seconds", about, labels=["operation", "status"])
        for key, count in list(self._requests.counts.items()):
            made.add_metric(list(key), count, self._requests.seconds[key])
        yield made
        yield _gauge("open_streams", "Streams of events that this process has open.", self._streams)


def _family(name: str, about: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    made = GaugeMetricFamily(f"perdure_{name}", about, labels=[label])
    for value, number in values.items():
        made.add_metric([value], number)
    return made


def _gauge(name: str, about: str, number: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"perdure_{name}", about, value=number)
