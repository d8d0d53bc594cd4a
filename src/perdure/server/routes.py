"""Requests for operations, found in their table. Each passes, in this order:

caller     is authenticated (`authentication`), and
role       one of its roles allows the verb (`authorization`), and
object     what is touched exists for the caller, and the caller may do this with it, and
read       an operation that only reads is done: all in one transaction
body       is what the operation declares, as is the query
place      a queue or repository that the body names
handle     the operation itself, under its idempotency key (`requests.idempotency`)

All of it is within a limit of time, but for content that is no JSON: a large bundle is packed for minutes.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from perdure.domain.caller import Caller
from perdure.domain.identity import Identity, acting
from perdure.domain.session import SessionRecord
from perdure.errors import ConfigError, NotFound, PerdureError, StoreUnavailable
from perdure.runtime.runtime import Runtime
from perdure.runtime.telemetry.hook import Kind, span
from perdure.server.authentication import PROTECTED, Authentication
from perdure.server.authorization import ask_ahead, authorize, authorize_place
from perdure.server.operation import EVENT_STREAM, JSON, LAST_EVENT_ID, Body, Context, Operation
from perdure.server.problem import on_error, wrong_method
from perdure.server.requests.answer import JsonAnswer
from perdure.server.requests.headers import header
from perdure.server.requests.operation_paths import OperationPaths
from perdure.server.requests.versions import entity_tag
from perdure.server.settings import ServerSettings
from perdure.store.move import StoreTransaction

UNREAD = object()  # an operation that does more than read
COMPRESSED = 4096  # bytes above which an answer is compressed
B = TypeVar("B", bound=Body)
Carry = Callable[[Context], Awaitable[Any]]


class OperationRouter:
    """Answers the requests for operations, which are all below one path; the others pass."""

    def __init__(
        self, app: ASGIApp, table: Iterable[Operation], runtime: Runtime, settings: ServerSettings,
        authentication: Authentication, carry_out: Carry,
    ) -> None:  # fmt: skip
        self._app = app
        self._paths = OperationPaths(table)
        self._runtime = runtime
        self._settings = settings
        self._authentication = authentication
        self._carry_out = carry_out

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not (path := path_in(scope)).startswith(PROTECTED):
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive, send)
        try:
            await self._answer(request, path, send)
        except PerdureError as error:
            if scope["state"]["status"] is not None:  # the answer had begun
                raise
            await (await on_error(request, error))(scope, receive, send)

    async def _answer(self, request: Request, path: str, send: Send) -> None:
        scope = request.scope
        operations, scope["path_params"] = self._paths.find(path)
        operation = operations.get(scope["method"])
        if operation is None:
            await self._authentication.admit(request, lambda _, __: None)
            if operations:
                raise wrong_method(scope["method"], Allow=", ".join(sorted(operations)))
            raise NotFound(f"There is no operation at {path:.200}.", hint="See /openapi.json.")
        try:
            async with asyncio.timeout(self._settings.patience) as limit:
                context, found = await self._enter(request, operation)
                if found is not UNREAD and not context.reads:
                    response = await self._encoded(context, found)
                else:
                    with acting(Identity.parse(context.caller.identity)):
                        response = await self._handle(context, found, limit)
        except TimeoutError:
            raise StoreUnavailable(f"This took longer than {self._settings.patience:g} seconds.") from None
        if isinstance(response, JsonAnswer):
            await response(scope, request.receive, send)
            return
        with acting(Identity.parse(context.caller.identity)):
            await response(scope, request.receive, send)

    async def _enter(self, request: Request, operation: Operation) -> tuple[Context, Any]:
        """The request of a caller that may make it, and what it reads if it only reads."""
        reads = operation.read if operation.handler is None or not wants_stream(request) else None

        def enter(tx: StoreTransaction, caller: Caller) -> tuple[Context, Any]:
            request.scope["state"]["operation"] = operation.name
            context = Context(operation, request, self._runtime, caller)
            authorize(tx, context)
            context.query = read_query(request, operation.query)
            if reads is not None and operation.shows:
                context.will_show(tx, operation.shows)
            return context, UNREAD if reads is None else reads(tx, context)

        def ahead(tx: StoreTransaction) -> None:
            ask_ahead(tx, operation, request.path_params)

        return await self._authentication.admit(request, enter, ahead)

    async def _handle(self, context: Context, found: Any, limit: asyncio.Timeout) -> Response:
        if found is UNREAD:
            found = await self._do(context, limit)
            report(context, found)
        await context.record_reads()
        if isinstance(found, Response):
            return found
        if context.operation.answer is None:
            return Response(status_code=204)
        return await self._encoded(context, found)

    async def _do(self, context: Context, limit: asyncio.Timeout) -> Any:
        operation = context.operation
        try:
            if operation.takes == JSON:
                context.body = await self._body(context)
            if operation.takes != JSON or operation.media != JSON:  # it takes as long as its content is large
                limit.reschedule(None)
            if operation.receive is not None:
                await operation.receive(context)
            await authorize_place(context)
            return await self._carry_out(context)
        finally:
            if context.content is not None:
                await asyncio.to_thread(context.content.cleanup)

    async def _encoded(self, context: Context, found: Any) -> Response:
        """The answer as JSON, compressed if it is long and the client takes that."""
        content, tag = msgspec.json.encode(found), entity_tag(found)
        headers = [] if tag is None else [(b"etag", tag.encode())]
        if len(content) > COMPRESSED and takes_gzip(context.request):
            content = await asyncio.to_thread(gzip.compress, content, 5)
            headers += [(b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")]
        return JsonAnswer(content, context.operation.status, headers)

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


def path_in(scope: Scope) -> str:
    """The path of a request below the one under which a proxy serves the service."""
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


def wants_stream(request: Request) -> bool:
    """Whether the client accepts a stream of events."""
    accepted = header(request.scope, b"accept")
    return (accepted is not None and EVENT_STREAM in accepted) or LAST_EVENT_ID in request.headers


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
    for name, value in parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True):
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
