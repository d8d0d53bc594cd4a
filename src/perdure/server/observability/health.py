"""Whether the service works. These pages need no token and are never served from memory: each asks the store.

/livez     only that the process answers, not the store. For what restarts processes
/healthz   the store answers: 200, else 503 with the code of the error
/readyz    the store answers, its schema is one that this version can use, and the process takes new work: 503 too
           while it ends
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from perdure.errors import PerdureError, SchemaMismatch, StoreUnavailable
from perdure.runtime.runtime import Runtime
from perdure.server.operation import JSON
from perdure.store import migrate
from perdure.store.moves import meta

T = TypeVar("T")
logger = logging.getLogger(__name__)
PATIENCE = 3.0  # seconds until a store that does not answer counts as gone
PATHS = ("/livez", "/healthz", "/readyz")


def routes() -> list[Route]:
    return [Route(path, page) for path, page in zip(PATHS, (livez, healthz, readyz), strict=True)]


async def livez(_: Request) -> Response:
    """Whether the process answers."""
    return _answer({"status": "ok"})


async def healthz(request: Request) -> Response:
    """Whether the store answers."""
    await schema_of(request.app.state.runtime)
    return _answer({"status": "ok"})


async def readyz(request: Request) -> Response:
    """Whether this process can take requests."""
    if request.app.state.stopping.is_set():
        raise StoreUnavailable("This process of the service ends.", hint="Send the request again.")
    return _answer({"status": "ready", "schema": await usable_schema(request.app.state.runtime)})


async def usable_schema(runtime: Runtime) -> int:
    """The version of the schema; raises if this version cannot use it."""
    version = await schema_of(runtime)
    oldest = int(await _asked(runtime.store.read(meta.get, "compatible_from")) or 0)
    try:
        migrate.check(version, oldest, migrate.known())
    except SchemaMismatch as error:
        raise StoreUnavailable(error.message, hint=error.hint) from error
    return version


async def schema_of(runtime: Runtime) -> int:
    """The version of the schema, read from the store now; raises `StoreUnavailable` if it does not answer."""
    return int(await _asked(runtime.store.read(meta.get, "schema_version")) or 0)


async def _asked(work: Awaitable[T]) -> T:
    """What the store answers in time; raises `StoreUnavailable`."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await work
    except TimeoutError:
        raise StoreUnavailable(f"The store has not answered for {PATIENCE:g} seconds.") from None
    except PerdureError as error:
        raise StoreUnavailable("The store does not answer.", hint=error.hint) from error
    except Exception as error:
        logger.warning("The store does not answer (%s).", type(error).__name__)
        raise StoreUnavailable("The store does not answer.") from error


def _answer(found: dict[str, Any]) -> Response:
    return Response(msgspec.json.encode(found), headers={"Cache-Control": "no-store"}, media_type=JSON)
