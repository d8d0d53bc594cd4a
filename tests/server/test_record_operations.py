"""The record, queues, schedules, principals and bundles over HTTP."""

from __future__ import annotations

import io
import socket
import zipfile

import httpx
import pytest

from perdure.store.moves import control_log
from perdure.store.store import Store
from perdure.testing.proxy import wait_until
from tests.server.support.service import Service
from tests.server.test_session_operations import start

pytestmark = pytest.mark.databases("sqlite", "postgres")


def test_people_write_to_the_record(service: Service, owner: httpx.Client) -> None:
    start(owner, "service_inbox", "m", arguments={"label": "x"})
    service.run("m")
    (task,) = owner.get("/v1/sessions/m/tasks").json()["items"]
    assert task["title"] == "answer"
    made = owner.post("/v1/sessions/m/tasks", json={"title": "more"})
    assert (made.status_code, made.json()["title"]) == (201, "more")
    fact = owner.post("/v1/facts", json={"key": "k", "value": [1], "scope": "team"}).json()
    assert (fact["value"], fact["updated_by"]) == ([1], "olga")
    old = owner.post("/v1/facts", json={"key": "k", "value": [2], "scope": "team", "expected": 0})
    assert (old.status_code, old.json()["code"]) == (409, "conflict")
    assert owner.post("/v1/facts/verify", json={"key": "k", "scope": "team"}).status_code == 204
    assert {one["key"] for one in owner.get("/v1/facts").json()["items"]} == {"k", "label"}
    some = service.client("bob", "operator", scopes=("queue:default",))
    assert {one["key"] for one in some.get("/v1/facts").json()["items"]} == {"label"}
    assert some.post("/v1/facts", json={"key": "k", "value": 1, "scope": "team"}).status_code == 403
    assert owner.post("/v1/facts/forget", json={"key": "k", "scope": "team"}).status_code == 204
    owner.post("/v1/orders", json={"text": "Be brief.", "name": "brief"})
    assert [one["key"] for one in some.get("/v1/orders").json()["items"]] == ["brief"]
    assert owner.post("/v1/orders/remove", json={"name": "brief"}).status_code == 204


def test_queues_and_limits_are_changed_where_the_scope_covers_them(service: Service, owner: httpx.Client) -> None:
    some = service.client("bob", "operator", scopes=("queue:a*",))
    assert some.post("/v1/queues/a1", json={"concurrency": 3, "rate": "10/1m"}).json()["concurrency"] == 3
    assert some.post("/v1/queues/a1", json={"concurrency": None}).json()["concurrency"] is None
    assert some.post("/v1/queues/b", json={"concurrency": 3}).status_code == 403
    owner.post("/v1/queues/b", json={"paused": True})
    assert [one["name"] for one in some.get("/v1/queues").json()["items"]] == ["a1"]
    assert some.get("/v1/queues/b").status_code == 404
    assert owner.get("/v1/queues/b").json()["paused_at"] is not None
    assert owner.post("/v1/rate-limits/anthropic", json={"requests": 60}).json()["requests"] == 60
    assert some.post("/v1/rate-limits/anthropic", json={"requests": 60}).status_code == 403


def test_schedules_belong_to_where_their_sessions_are(service: Service, owner: httpx.Client) -> None:
    body = {"program": "service_end", "arguments": {"value": "x"}, "every": "1h", "queue": "a"}
    some = service.client("bob", "operator", scopes=("queue:a",))
    other = service.client("eve", "operator", scopes=("queue:b",))
    assert some.post("/v1/schedules/nightly", json=body).json()["name"] == "nightly"
    assert other.get("/v1/schedules/nightly").status_code == 404
    assert other.post("/v1/schedules/nightly/pause").status_code == 404
    assert other.post("/v1/schedules/nightly", json=body | {"queue": "b"}).status_code == 403
    key = {"Idempotency-Key": "t"}
    first, second = (some.post("/v1/schedules/nightly/trigger", headers=key) for _ in range(2))
    assert (first.status_code, first.json()["uid"]) == (201, second.json()["uid"])
    assert some.post("/v1/schedules/nightly/pause").json()["paused_at"] is not None
    assert some.post("/v1/schedules/nightly/remove").status_code == 204
    assert some.get("/v1/schedules").json()["items"] == []


def used_by(owner: httpx.Client) -> set[str]:
    return {one["principal"] for one in owner.get("/v1/tokens").json()["items"] if one["used_at"] is not None}


def test_only_an_owner_makes_principals_and_tokens(service: Service, owner: httpx.Client) -> None:
    body = {"name": "grace", "roles": ["approver"]}
    assert service.client("bob", "operator").post("/v1/principals", json=body).status_code == 403
    assert owner.post("/v1/principals", json=body).json()["roles"] == ["approver"]
    asked = {"principal": "grace", "scopes": ["queue:a"]}
    key = {"Idempotency-Key": "t"}
    made = owner.post("/v1/tokens", json=asked, headers=key)
    again = owner.post("/v1/tokens", json=asked, headers=key)
    assert (made.status_code, again.status_code) == (201, 409)
    assert made.json()["view"]["id"] in again.json()["detail"]
    grace = service.with_token(made.json()["token"])
    assert grace.get("/v1/self").json()["scopes"] == ["queue:a"]
    wait_until(lambda: "grace" in used_by(owner), "the use of the token is noted")
    assert owner.post(f"/v1/tokens/{made.json()['view']['id']}/revoke").json()["state"] == "revoked"
    assert grace.get("/v1/self").status_code == 401
    lines = service.store.read_now(lambda tx: list(control_log.listing(tx)))
    assert "token.revoked" in {one.kind for one in lines}
    assert made.json()["token"].rpartition("_")[2] not in str(lines)


def test_the_fleet_and_its_condition_are_shown(service: Service, owner: httpx.Client) -> None:
    start(owner, "service_end", "e", arguments={"value": "x"})
    service.run("e")
    assert len(owner.get("/v1/workers").json()["items"]) == 1
    assert len(owner.get("/v1/tree").json()["processes"]) == 1
    assert owner.get("/v1/overview").json()["stuck"] == []
    assert owner.get("/v1/verify").json()["damaged"] == []
    assert owner.get("/v1/doctor").json()["schema"]["version"] >= 14


def test_a_session_moves_by_its_bundle(service: Service, owner: httpx.Client) -> None:
    start(owner, "service_question", "q", arguments={"text": "?"})
    service.run("q")
    got = owner.post("/v1/sessions/q/export")
    assert (got.status_code, got.headers["content-type"]) == (200, "application/zip")
    zipped = {"Content-Type": "application/zip"}
    first = owner.post("/v1/import", params={"id": "copy"}, content=got.content, headers=zipped)
    assert (first.status_code, first.json()["session"]["id"], first.json()["changed"]) == (201, "copy", True)
    again = owner.post("/v1/import", params={"id": "copy"}, content=got.content, headers=zipped)
    assert (again.status_code, again.json()["changed"]) == (201, False)
    assert owner.post("/v1/import", content=got.content[:200], headers=zipped).json()["code"] == "bundle-invalid"
    assert owner.post("/v1/import", content=b"PK", headers=zipped).status_code == 422
    assert owner.post("/v1/import", content=b"{}").status_code == 415
    assert service.client("bob", "operator", scopes=("queue:a",)).post("/v1/import").status_code == 403


def test_a_bundle_that_would_grow_is_refused(store: Store) -> None:
    service = Service(store, largest_bundle=100_000)
    try:
        owner, zipped = service.client("olga"), {"Content-Type": "application/zip"}
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as bomb:
            bomb.writestr("manifest.json", b" " * (50 << 20))
        refused = owner.post("/v1/import", content=made.getvalue(), headers=zipped)
        assert (refused.status_code, refused.json()["code"]) == (422, "bundle-invalid")
        assert owner.post("/v1/import", content=b"x" * 100_001, headers=zipped).status_code == 413
    finally:
        service.close()


def test_a_bundle_that_does_not_come_is_refused(store: Store) -> None:
    service = Service(store, slow=0.2)
    try:
        owner = service.client("olga")
        host, _, port = service.address.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), timeout=180) as slow:
            head = f"POST /v1/import HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/zip\r\n"
            slow.sendall(
                f"{head}Content-Length: 9\r\nAuthorization: {owner.headers['authorization']}\r\n\r\nPK".encode()
            )
            assert b" 408 " in slow.recv(65536).split(b"\r\n")[0]
    finally:
        service.close()
