"""A web service with FastAPI: as web_starlette.py, and a second request waits for the result.

PAYMENTS_URL=https://payments.example.org uvicorn web_fastapi:app
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, HTTPException, Request
from payment import pay_order
from pydantic import BaseModel

import perdure


class Order(BaseModel):
    customer: str
    cents: int


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with perdure.Worker(os.environ.get("ORDERS_STORE"), concurrency=8) as worker:
        app.state.runtime = worker.runtime
        yield


def get_runtime(request: Request) -> perdure.Runtime:
    runtime: perdure.Runtime = request.app.state.runtime
    return runtime


Runtime = Annotated[perdure.Runtime, Depends(get_runtime)]
app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=202)
async def place(order: Order, idempotency_key: Annotated[str, Header()], runtime: Runtime) -> dict[str, str]:
    try:
        session = await runtime.start(pay_order.bind(order.customer, order.cents), id=idempotency_key)
    except perdure.Conflict as conflict:
        raise HTTPException(409, str(conflict)) from conflict
    return {"id": session.id, "status": session.status}


@app.get("/orders/{id}")
async def wait_for(id: str, runtime: Runtime, seconds: float = 20) -> dict[str, Any]:
    """The result, or the status if it is not known within so many seconds."""
    try:
        await asyncio.wait_for(runtime.result(id), seconds)
    except (TimeoutError, perdure.SessionFailed, perdure.SessionWaiting):
        pass
    except perdure.NotFound as missing:
        raise HTTPException(404, str(missing)) from missing
    session = await runtime.get(id)
    return {"id": session.id, "status": session.status, "result": session.result}
