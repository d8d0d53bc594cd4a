"""A web service with Starlette: a request starts a session, and a worker in the same process runs it.

    PAYMENTS_URL=https://payments.example.org uvicorn web_starlette:app
    curl localhost:8000/orders -H 'Idempotency-Key: order-17' -d '{"customer": "ada", "cents": 4200}'
    curl localhost:8000/orders/order-17

The key of the request is the id of the session, so a client that repeats a request gets the same order. Stop the server
at any time; orders that were accepted are completed by the next one.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypedDict

from payment import pay_order
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import perdure


class State(TypedDict):
    runtime: perdure.Runtime


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[State]:
    async with perdure.Worker(os.environ.get("ORDERS_STORE"), concurrency=8) as worker:
        yield {"runtime": worker.runtime}


async def place(request: Request) -> JSONResponse:
    order, key = await request.json(), request.headers["Idempotency-Key"]
    bound = pay_order.bind(order["customer"], order["cents"])
    session = await request.state.runtime.start(bound, id=key)
    return JSONResponse({"id": session.id, "status": session.status}, status_code=202)


async def look_up(request: Request) -> JSONResponse:
    session = await request.state.runtime.get(request.path_params["id"])
    return JSONResponse({"id": session.id, "status": session.status, "result": session.result})


async def on_error(_: Request, error: Exception) -> JSONResponse:
    """Another order has this key, or there is no such order."""
    status = 409 if isinstance(error, perdure.Conflict) else 404 if isinstance(error, perdure.NotFound) else 500
    return JSONResponse({"error": str(error)}, status_code=status)


app = Starlette(
    routes=[Route("/orders", place, methods=["POST"]), Route("/orders/{id}", look_up)],
    exception_handlers={perdure.PerdureError: on_error},
    lifespan=lifespan,
)
