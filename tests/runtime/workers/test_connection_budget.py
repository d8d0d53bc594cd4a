"""A worker on PostgreSQL keeps to the number of connections that is documented, however many sessions it runs."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

import perdure
from perdure import Session, program
from perdure.store.databases.postgres.address import connection_budget
from perdure.testing.postgres import PostgresServer

SESSIONS, STEPS = 64, 5
CONNECTIONS = (
    "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'perdure'"
)
RUNNING: set[str] = set()


@program
async def budget_steps(s: Session) -> int:
    """Works only while all sessions run, so that the worker is as busy as it can be."""
    RUNNING.add(s.id)
    while len(RUNNING) < SESSIONS:
        await asyncio.sleep(0.01)
    for number in range(STEPS):
        await s.step(f"step {number}", lambda: 1)
    return STEPS


@pytest.mark.postgres
@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("connections", [1, 8])
async def test_a_busy_worker_keeps_to_its_connections(connections: int, postgres_server: PostgresServer) -> None:
    RUNNING.clear()
    url = postgres_server.create_database()
    async with perdure.open(url, connections=connections) as runtime:
        ids = [f"s-{number}" for number in range(SESSIONS)]
        await runtime.start_many([budget_steps.bind()] * SESSIONS, ids=ids)
        most = 0
        with psycopg.connect(url, autocommit=True, application_name="observer") as observer:
            async with perdure.Worker(runtime, concurrency=SESSIONS):
                results = asyncio.gather(*(runtime.result(id) for id in ids))
                while not results.done():
                    (count,) = observer.execute(CONNECTIONS).fetchone() or (0,)
                    most = max(most, count)
                    await asyncio.sleep(0)
                assert await results == [STEPS] * SESSIONS
    assert len(RUNNING) == SESSIONS
    assert connections < most <= connection_budget(connections)
    postgres_server.drop_database(url)
