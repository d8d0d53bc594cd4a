"""Routes, made from the table of operations. Each request passes, in this order:

role       a role of the caller allows the verb (`authorization`)
object     what is touched exists for the caller, and the caller may do this with it
query      and body are what the operation declares
place      a queue or repository that the body names
handle     the operation itself, under its idempotency key (`requests.idempotency`)

All of it is within a limit of time, but for content that is no JSON: a large bundle is packed for minutes.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from perdure.domain.session import SessionRecord
from perdure.errors import ConfigError, StoreUnavailable
from perdure.runtime.runtime import Runtime
from perdure.runtime.telemetry.hook import Kind, span
from perdure.server.authorization import authorize, authorize_place
from perdure.server.operation import JSON, Body, Context, Operation
from perdure.server.requests.versions import entity_tag
from perdure.server.settings import ServerSettings

COMPRESSED = 4096  # bytes above which an answer is compressed
B = TypeVar("B", bound=Body)
Carry = Callable[[Context], Awaitable[Any]]


class Router:
    """Handles the requests for operations."""

    def __init__(self, runtime: Runtime, settings: ServerSettings, carry_out: Carry) -> None:
        self._runtime = runtime
        self._settings = settings
        self._carry_out = carry_out

    def routes(self, table: Iterable[Operation]) -> list[Route]:
        return [Route(one.path, self._endpoint(one), methods=[one.method], name=one.name) for one in table]

    def _endpoint(self, operation: Operation) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            request.state.operation = operation.name
            context = Context(operation, request, self._runtime, request.state.caller)
            try:
                async with asyncio.timeout(self._settings.patience) as limit:
                    return await self._handle(context, limit)
            except TimeoutError:
                raise StoreUnavailable(f"This took longer than {self._settings.patience:g} seconds.") from None
            finally:
                if context.content is not None:
                    await asyncio.to_thread(context.content.cleanup)

        return endpoint

    async def _handle(self, context: Context, limit: asyncio.Timeout) -> Response:
        operation = context.operation
        await authorize(context)
        context.query = read_query(context.request, operation.query)
        if operation.takes == JSON:
            context.body = await self._body(context)
        if operation.takes != JSON or operation.media != JSON:  # it takes as long as its content is large
            limit.reschedule(None)
        if operation.receive is not None:
            await operation.receive(context)
        await authorize_place(context)
        found = await self._carry_out(context)
        report(context, found)
        if isinstance(found, Response):
            return found
        if operation.answer is None:
            return Response(status_code=204)
        return await self._answer(context, found)

    async def _answer(self, context: Context, found: Any) -> Response:
        """The answer as JSON, compressed if it is long and the client takes that."""
        content, tag = msgspec.json.encode(found), entity_tag(found)
        headers = {} if tag is None else {"ETag": tag}
        if len(content) > COMPRESSED and takes_gzip(context.request):
            content = await asyncio.to_thread(gzip.compress, content, 5)
            headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        return Response(content, context.operation.status, headers, JSON)

    async def _body(self, context: Context) -> Any:
        if context.operation.body is None:
            return None
        largest = context.operation.largest or self._settings.largest_body
        try:
            async with asyncio.timeout(self._settings.slow):
                content = await read_body(context.request, largest)
        except TimeoutError:
            raise ConfigError(f"The body did not come within {self._settings.slow:g} seconds.", status=408) from None
        if not content.strip():
            content = b"{}"
        if (kind := context.request.headers.get("content-type", JSON).partition(";")[0].strip().lower()) != JSON:
            raise ConfigError(f"The body is {kind:.80}, not {JSON}.", status=415)
        try:
            return msgspec.json.decode(content, type=context.operation.body)
        except msgspec.ValidationError as error:
            raise ConfigError(f"The body is not what this operation takes: {error}.") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ConfigError(f"The body is not JSON: {error}.", status=400) from None


def report(context: Context, found: Any) -> None:
    """Report a change of a session in its trace, with a link to the span of the client that asked for it."""
    session = context.session or (found if isinstance(found, SessionRecord) else None)
    if session is not None and context.operation.method != "GET":
        given = context.request.headers.get("traceparent")
        with span(Kind.REQUEST, session.uid, context.operation.name, session=session.id, traceparent=given):
            pass


def takes_gzip(request: Request) -> bool:
    """Whether the client takes compressed answers."""
    for one in request.headers.get("accept-encoding", "").split(","):
        name, _, quality = one.partition(";")
        if name.strip().lower() == "gzip":
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


async def read_body(request: Request, limit: int) -> bytes:
    """The body of a request, up to a size."""
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > limit:
                raise ConfigError(f"The body has more than {limit:,} bytes.", status=413)
            parts.append(part)
    except ClientDisconnect:
        raise ConfigError("The client went away.", status=400) from None
    return b"".join(parts)


def read_query(request: Request, kind: type[B] | None) -> B | None:
    """The query of a request as its type; refuses names that are unknown or given twice."""
    given: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in given:
            raise ConfigError(f"The query names {name!r:.40} twice.")
        given[name] = value
    if kind is None:
        if given:
            raise ConfigError(f"This operation has no parameter {min(given)!r:.40}.")
        return None
    if any("\0" in value for value in given.values()):
        raise ConfigError("The query contains NUL.")
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"The query is not what this operation takes: {error}.") from None
