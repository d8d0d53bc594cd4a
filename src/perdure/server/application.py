"""The service as an ASGI application: the operations, health, the document, and what others mount beside it.

Around everything is `RequestLog`. `AuthenticatedPages` sets `request.state.caller` for each request that is not for an
operation. `request.app.state` has the `runtime` and the `settings`. Routes that are mounted at `/`, such as those of
the console, decide themselves what a caller that is None may see.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from perdure.errors import PerdureError
from perdure.runtime.runtime import Runtime
from perdure.server import openapi, problem
from perdure.server.authentication import AuthenticatedPages, Authentication
from perdure.server.observability import health
from perdure.server.observability.metrics import MetricsPage
from perdure.server.observability.request_metrics import RequestMetrics
from perdure.server.operation import JSON, Context
from perdure.server.operations import TABLE
from perdure.server.requests.idempotency import Idempotency
from perdure.server.requests.log import RequestLog
from perdure.server.requests.perimeter import Perimeter
from perdure.server.requests.rates import CallerRates
from perdure.server.requests.versions import has_already
from perdure.server.routes import OperationRouter, takes_gzip
from perdure.server.settings import ServerSettings
from perdure.server.stream.admission import StreamAdmission
from perdure.server.stream.live import LiveTails
from perdure.server.stream.tail import Tails


def make_application(
    runtime: Runtime, settings: ServerSettings | None = None, extra_routes: Sequence[BaseRoute] = ()
) -> Starlette:
    """The application over an open store. `extra_routes` come after its own."""
    settings = settings or ServerSettings()
    idempotency = Idempotency(carry_out)
    rates = CallerRates(settings, runtime.store.clock)
    authentication = Authentication(runtime, settings, rates)
    handling: dict[str, Any] = {"authentication": authentication, "carry_out": idempotency.carry_out}
    routes = [
        *health.routes(),
        Route("/metrics", MetricsPage(runtime).answer),
        Route("/openapi.json", openapi_document),
        *extra_routes,
    ]
    handlers: dict[Any, Any] = {
        PerdureError: problem.on_error,
        Exception: problem.on_error,
        404: problem.on_missing_page,
        405: problem.on_wrong_method,
        HTTPException: problem.on_error,
    }
    around = [
        Middleware(RequestLog),
        Middleware(Perimeter, settings=settings),
        Middleware(OperationRouter, table=TABLE, runtime=runtime, settings=settings, **handling),
        Middleware(AuthenticatedPages, authentication=authentication),
    ]
    app = Starlette(routes=routes, middleware=around, exception_handlers=handlers)
    app.state.runtime, app.state.settings = runtime, settings
    app.state.rates, app.state.idempotency = rates, idempotency
    app.state.request_metrics = RequestMetrics()
    app.state.stopping = asyncio.Event()  # streams end when it is set
    app.state.tails = Tails(runtime.store, app.state.stopping)
    app.state.live_tails = LiveTails(runtime)
    app.state.admission = StreamAdmission(settings)
    return app


async def carry_out(context: Context) -> Any:
    return await context.operation.handle(context)


@cache
def packed_document() -> tuple[bytes, bytes, str]:
    """The document, also compressed, and its ETag. It is the same for all of the life of a process."""
    content = msgspec.json.encode(openapi.document(TABLE))
    return content, gzip.compress(content, 9, mtime=0), f'W/"{sha256(content).hexdigest()[:32]}"'


async def openapi_document(request: Request) -> Response:
    content, packed, tag = packed_document()
    headers = {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if has_already(request.headers.get("if-none-match"), tag):
        return Response(None, 304, headers)
    if takes_gzip(request):
        return Response(packed, headers=headers | {"Content-Encoding": "gzip"}, media_type=JSON)
    return Response(content, headers=headers, media_type=JSON)
