"""Two service processes on one database: what one does, the other knows."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

import perdure
from perdure.domain.principal import Role
from perdure.testing.proxy import wait_until
from tests.control.supervisor.support.deployment import Deployment
from tests.server.support.tokens import a_token
from tests.server.test_streams import reading

SERVE = ("serve", "--workers", "0", "--port", "0", "--json")
KEYS = 8
PATIENCE = 300  # seconds; sixteen processes start at the same time
AGAIN = ("request-in-flight", "store-unavailable")  # codes after which the same request is sent again
BODY: dict[str, Any] = {"program": "served_stages", "arguments": {"folder": "/nowhere"}}


def addresses(deployment: Deployment, number: int) -> list[str]:
    found: list[str] = []

    def are_told() -> bool:
        lines = [line for line in deployment.log.splitlines() if line.startswith('{"type":"serve.started"')]
        found[:] = [json.loads(line)["addresses"][0] for line in lines]
        return len(found) == number

    wait_until(are_told, "the services told where they listen")
    return found


async def tokens(deployment: Deployment) -> tuple[str, str]:
    """Of an operator, and of an owner."""
    async with perdure.open(deployment.target) as runtime:
        operator = await a_token(runtime, Role.OPERATOR)
        return operator, await a_token(runtime, Role.OWNER)


def started(client: httpx.Client, key: str) -> str:
    """The uid of the session that a key starts; asked again while another process carries it out, or is slow."""
    found: list[httpx.Response] = []

    def is_answered() -> bool:
        found[:] = [client.post("/v1/sessions", json=BODY, headers={"Idempotency-Key": key})]
        assert found[0].status_code == 201 or found[0].json()["code"] in AGAIN, found[0].text
        return found[0].status_code == 201

    wait_until(is_answered, "the request is answered", PATIENCE)
    return str(found[0].json()["uid"])


@pytest.mark.slow
@pytest.mark.databases("postgres")
def test_two_services_are_one_to_their_clients(deployment: Deployment) -> None:
    operator, owner = asyncio.run(tokens(deployment))
    for name in ("a", "b"):
        deployment.start(*SERVE, "--socket", str(deployment.folder / name))
    clients = [
        httpx.Client(base_url=address, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE)
        for address in addresses(deployment, 2)
        for token in (operator, owner)
    ]
    on_a, owner_on_a, on_b, _ = clients
    try:
        asked = [(client, f"key-{number}") for number in range(KEYS) for client in (on_a, on_b)]
        with ThreadPoolExecutor(4) as pool:
            uids = list(pool.map(lambda one: started(*one), asked))
        assert uids[::2] == uids[1::2]
        assert len(set(uids)) == len(on_b.get("/v1/sessions").json()["items"]) == KEYS
        with reading(on_b, f"/v1/sessions/{uids[0]}/events") as lines:
            assert next(lines)["id"] == 1
            assert on_a.post(f"/v1/sessions/{uids[0]}/rename", json={"title": "made on A"}).status_code == 200
            assert "made on A" in json.dumps(next(lines)["data"])
            (mine,) = [one for one in owner_on_a.get("/v1/tokens").json()["items"] if one["id"] in operator]
            assert owner_on_a.post(f"/v1/tokens/{mine['id']}/revoke").status_code == 200
            assert list(lines)[-1] == {"event": "closed", "data": {"reason": "access"}}
        assert on_b.get("/v1/self").status_code == 401
    finally:
        for one in clients:
            one.close()
