"""Health, readiness and metrics over HTTP, while the store is there and while it is not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

import perdure
from perdure import Session, program
from perdure.domain.principal import Role
from perdure.server.application import make_application
from perdure.store import migrate
from perdure.store.store import Store
from perdure.testing.postgres import PostgresServer
from tests.memory import MEMORY
from tests.server.support.tokens import a_token
from tests.store.support.sessions import raw

PAGES = ("/healthz", "/readyz")
SLOW = "has not answered for"


@program
async def health_asks(s: Session) -> object:
    return await s.ask("Now?")


async def answered(client: httpx.AsyncClient, page: str) -> httpx.Response:
    """What a page says of a store that is there; asked again while it only took too long."""
    answer = await client.get(page)
    while SLOW in answer.text:
        answer = await client.get(page)
    return answer


@asynccontextmanager
async def service(runtime: perdure.Runtime) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(make_application(runtime), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


@pytest.mark.databases("sqlite", "postgres")
async def test_health_and_readiness_need_no_token(target: str) -> None:
    async with perdure.open(target) as runtime, service(runtime) as client:
        client.headers["authorization"] = "Bearer wrong"
        found = [await answered(client, page) for page in ("/livez", *PAGES)]
        assert [one.status_code for one in found] == [200, 200, 200]
        assert found[2].json()["schema"] > 0


async def test_file_that_is_gone_is_unhealthy_until_it_is_back(folder: Path) -> None:
    path = folder / "perdure.db"
    async with perdure.open(path) as runtime, service(runtime) as client:
        path.rename(folder / "elsewhere")
        for page in PAGES:
            gone = await client.get(page)
            assert (gone.status_code, gone.json()["code"], gone.json()["retry"]) == (503, "store-unavailable", True)
        assert (await client.get("/livez")).status_code == 200
        (folder / "elsewhere").rename(path)
        assert [(await answered(client, page)).status_code for page in PAGES] == [200, 200]


@pytest.mark.slow
@pytest.mark.postgres
async def test_server_that_is_gone_is_unhealthy_until_it_is_back() -> None:
    with PostgresServer(MEMORY) as server:
        async with perdure.open(server.create_database("health")) as runtime, service(runtime) as client:
            assert (await answered(client, "/healthz")).status_code == 200
            server.kill()
            for page in PAGES:
                gone = await client.get(page)
                assert (gone.status_code, gone.json()["code"]) == (503, "store-unavailable")
            server.start()
            for page in PAGES:
                assert (await answered(client, page)).status_code == 200


@pytest.mark.databases("sqlite", "postgres")
async def test_metrics_show_what_the_store_holds(target: str) -> None:
    async with perdure.open(target) as runtime, service(runtime) as client:
        await runtime.run((await runtime.start(health_asks.bind(), id="waits")).id)
        await runtime.start(health_asks.bind(), id="ready", queue="nightly")
        token = await a_token(runtime, Role.AUDITOR)
        answer = await client.get("/metrics", headers={"Authorization": f"Bearer {token}"})
        assert answer.headers["content-type"].startswith("text/plain")
        found = {
            (sample.name, *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(answer.text)
            for sample in family.samples
        }
        assert found["perdure_sessions", "waiting"] == found["perdure_sessions", "ready"] == 1
        assert found["perdure_queue_ready_sessions", "nightly"] == 1
        assert found["perdure_waiting_for_people", "input"] == 1
        assert found["perdure_effects_in_doubt",] == 0


@pytest.mark.databases("sqlite")
async def test_metrics_count_requests_of_this_process(target: str) -> None:
    async with perdure.open(target) as runtime, service(runtime) as client:
        headers = {"Authorization": f"Bearer {await a_token(runtime, Role.OWNER)}"}
        for path in ("/v1/queues", "/v1/queues", "/v1/sessions/none"):
            await client.get(path, headers=headers)
        text = (await client.get("/metrics", headers=headers)).text
    assert 'perdure_request_seconds_count{operation="queues.list",status="200"} 2.0' in text
    assert 'perdure_request_seconds_count{operation="sessions.get",status="404"} 1.0' in text
    assert 'perdure_request_seconds_sum{operation="queues.list",status="200"} ' in text
    assert "perdure_open_streams 0.0" in text


def newer_store(store: Store, target: str, statement: str) -> None:
    """Change the store as a newer version does; the store refuses it on PostgreSQL from this one."""
    if not target.startswith("postgresql:"):
        raw(store, statement)
        return
    import psycopg

    with psycopg.connect(target, autocommit=True) as db:
        db.execute(statement.encode())


@pytest.mark.databases("sqlite", "postgres")
async def test_a_schema_that_this_version_cannot_use_is_not_ready(store: Store, target: str) -> None:
    async with perdure.open(target) as runtime, service(runtime) as client:
        assert (await answered(client, "/readyz")).status_code == 200
        newer = str(migrate.known() + 1)
        newer_store(
            store, target, f"update meta set value = '{newer}' where key in ('schema_version', 'compatible_from')"
        )
        found = await answered(client, "/readyz")
        assert (found.status_code, found.json()["code"]) == (503, "store-unavailable")
        assert f"The store has schema {newer}" in found.json()["detail"]


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(("role", "status"), [(None, 401), (Role.WORKER, 403), (Role.OPERATOR, 200)])
async def test_metrics_need_a_role(target: str, role: Role | None, status: int) -> None:
    async with perdure.open(target) as runtime, service(runtime) as client:
        headers = {} if role is None else {"Authorization": f"Bearer {await a_token(runtime, role)}"}
        assert (await client.get("/metrics", headers=headers)).status_code == status
