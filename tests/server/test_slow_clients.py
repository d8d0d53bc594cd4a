"""Clients that send slowly, streams with nothing to say, and paths behind a proxy."""

from __future__ import annotations

import socket
from contextlib import suppress

import httpx
import pytest

from perdure.server import protocol
from perdure.server.stream.response import HEARTBEAT
from perdure.store.store import Store
from perdure.testing.proxy import wait_until
from tests.server.support.service import Service
from tests.server.test_session_operations import start
from tests.server.test_streams import STREAM

pytestmark = pytest.mark.databases("sqlite")


def connected(service: Service) -> socket.socket:
    host, _, port = service.address.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=180)


def read_all(there: socket.socket) -> bytes:
    found = b""
    while part := there.recv(65536):
        found += part
    return found


@pytest.mark.parametrize(
    "head", [b"", b"GET /v1/self HTTP/1.1\r\n", b"GET /v1/self HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "]
)
def test_a_slow_head_closes_the_connection(service: Service, head: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_TIME", 0.2)
    with connected(service) as there:
        there.sendall(head)
        assert read_all(there) == b""
    assert service.with_token(None).get("/livez").status_code == 200


def test_the_second_head_of_a_connection_is_limited_too(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_TIME", 0.2)
    with connected(service) as there:
        there.sendall(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /livez HTTP/1.1\r\n")
        assert read_all(there).count(b"HTTP/1.1 200") == 1


def test_a_body_that_drips_is_refused(store: Store) -> None:
    service = Service(store, slow=0.3)
    try:
        owner = service.client("olga")
        head = f"POST /v1/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {owner.headers['authorization']}\r\n"
        with connected(service) as there:
            there.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 9999\r\n\r\n{{".encode())
            there.settimeout(0.05)
            found = b""
            for _ in range(2000):  # the client never stops to send
                with suppress(TimeoutError):
                    there.sendall(b" ")
                    found = there.recv(65536)
                if found:
                    break
        assert found.split(b" ", 2)[1] == b"408"
        assert owner.get("/v1/sessions").json()["items"] == []
    finally:
        service.close()


def test_a_stream_with_nothing_to_say_sends_comments(store: Store) -> None:
    service = Service(store, heartbeat=0.1)
    try:
        owner = service.client("olga")
        start(owner, "service_inbox", "m", arguments={"label": "x"})
        for path in ("events", "live"):
            with owner.stream("GET", f"/v1/sessions/m/{path}", headers=STREAM) as answer:
                lines = (line for line in answer.iter_lines() if line == HEARTBEAT.decode().strip())
                assert [next(lines), next(lines)] == [": still here"] * 2
    finally:
        service.close()


def test_paths_under_a_root_path_are_those_of_the_service(store: Store) -> None:
    service = Service(store, root_path="/tools/perdure", console=True)
    try:
        owner, stranger = service.client("olga"), service.with_token(None)
        start(owner, "service_inbox", "a/b@c:d", arguments={"label": "x"})
        found = owner.get("/v1/sessions/a%2Fb%40c%3Ad")
        assert (found.status_code, found.json()["id"]) == (200, "a/b@c:d")
        assert owner.post("/v1/sessions/a%2Fb%40c%3Ad/rename", json={"title": "t"}).json()["title"] == "t"
        for path in ("/v1/self", "/tools/perdure/v1/self", "/tools/perdure%2Fv1/self", "//v1/self", "/v1%2Fself"):
            assert stranger.get(path).status_code in (401, 404, 303), path
            assert "olga" not in stranger.get(path).text
        assert stranger.get("/v1/self").status_code == 401
        wait_until(lambda: stranger.get("/readyz").json()["status"] == "ready", "the store answers in time")
        moved: httpx.Response = stranger.get("/sessions")
        assert moved.headers["location"].startswith("/tools/perdure/sign-in?")
    finally:
        service.close()
