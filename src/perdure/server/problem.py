"""Errors as answers: problem+json (RFC 9457) with our code, hint, and whether a retry can help."""

from __future__ import annotations

import logging

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from perdure.errors import (
    AccessError,
    BundleInvalid,
    ConfigError,
    Conflict,
    IllegalMove,
    KeyReused,
    LeaseError,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    PerdureError,
    PolicyDenied,
    ProgramUnknown,
    QueueFull,
    StoreFull,
    StoreUnavailable,
    TooManyRequests,
    VersionChanged,
)

logger = logging.getLogger(__name__)
MEDIA = "application/problem+json"
STATUS: dict[type[PerdureError], int] = {  # the first that fits
    NotAuthenticated: 401,
    NotAllowed: 403,
    PolicyDenied: 403,
    NotFound: 404,
    QueueFull: 429,
    TooManyRequests: 429,
    KeyReused: 422,
    VersionChanged: 412,
    ConfigError: 422,
    ProgramUnknown: 422,
    BundleInvalid: 422,
    StoreFull: 507,
    StoreUnavailable: 503,
    Conflict: 409,
    IllegalMove: 409,
    LeaseError: 409,
    AccessError: 403,
}
OTHER = 409  # every other error of ours is about the state of what was asked for


class Problem(msgspec.Struct, frozen=True):
    """An error, as it is answered."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str
    retry: bool
    request_id: str


def status_of(error: PerdureError) -> int:
    """The status of an error; some errors carry their own."""
    given = error.details.get("status")
    return (
        given if isinstance(given, int) else next((n for kind, n in STATUS.items() if isinstance(error, kind)), OTHER)
    )


def answer(error: PerdureError, request_id: str) -> Response:
    """The answer that tells of an error."""
    status = status_of(error)
    problem = Problem(
        type=f"urn:perdure:error:{error.code}", title=type(error).__name__, status=status, detail=error.message,
        code=error.code, hint=error.hint, retry=error.retry, request_id=request_id,
    )  # fmt: skip
    headers: dict[str, str] = {}
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="perdure"'
    if status in (429, 503) or "retry_after" in error.details:
        headers["Retry-After"] = str(error.details.get("retry_after", 1))
    headers |= error.details.get("headers", {})
    return Response(msgspec.json.encode(problem), status, headers, MEDIA)


async def on_error(request: Request, error: Exception) -> Response:
    """The answer to any error. What is not ours is logged with its request id, and not shown."""
    id = request_id(request)
    if isinstance(error, PerdureError):
        return answer(error, id)
    logger.error("Request %s failed.", id, exc_info=error)
    hidden = PerdureError("The service failed.", hint="The log of the service has the request id.", status=500)
    return answer(hidden, id)


async def on_missing_page(request: Request, _: Exception) -> Response:
    return answer(
        NotFound(f"There is nothing at {request.url.path:.200}.", hint="See /openapi.json."), request_id(request)
    )


async def on_wrong_method(request: Request, error: Exception) -> Response:
    allowed = getattr(error, "headers", None) or {}
    return answer(wrong_method(request.method, **allowed), request_id(request))


def wrong_method(method: str, **headers: str) -> ConfigError:
    """The error of a method that a path does not have; the headers tell which it has."""
    return ConfigError(f"{method} is not possible here.", hint="See /openapi.json.", status=405, headers=headers)


def request_id(request: Request) -> str:
    found = request.scope.get("state", {}).get("request_id", "")
    return str(found)
