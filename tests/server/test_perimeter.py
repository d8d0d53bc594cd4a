"""What is refused before anyone looks at who asks: hosts, origins, rates, paths, sizes."""

from __future__ import annotations

import logging
import re
import socket
from contextlib import suppress
from typing import Any

import httpx
import pytest
from starlette.requests import Request

from perdure.server.observability import health
from perdure.server.requests.credentials import address_of
from perdure.server.requests.perimeter import is_own_name
from perdure.server.settings import ServerSettings
from perdure.store.store import Store
from perdure.testing import ManualClock
from tests.server.support.service import Service

pytestmark = pytest.mark.databases("sqlite")


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        ("127.0.0.1:7180", True),
        ("[::1]:7180", True),
        ("localhost", True),
        ("10.1.2.3", True),
        ("sessions.example.org:443", True),
        ("SESSIONS.example.org.", True),
        ("evil.example.org", False),
        ("127.0.0.1.example.org", False),
        ("localhost.example.org", False),
        ("sessions.example.org.evil", False),
        ("user@evil", False),
        ("[::1", False),
        ("", False),
    ],
)
def test_a_host_is_an_address_or_a_name_of_the_service(host: str, is_own: bool) -> None:
    assert is_own_name(host, ServerSettings(hosts=("sessions.example.org",))) is is_own


def raw(service: Service, request: bytes) -> bytes:
    """The answer to bytes as they are."""
    host, _, port = service.address.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=180) as there:
        there.sendall(request)
        with suppress(OSError):  # it has been closed already
            there.shutdown(socket.SHUT_WR)
        found = b""
        while part := there.recv(65536):
            found += part
    return found


def test_a_name_that_was_rebound_is_refused(service: Service, owner: httpx.Client) -> None:
    for path in ("/v1/self", "/openapi.json", "/"):
        refused = owner.get(path, headers={"Host": "evil.example.org"})
        assert (refused.status_code, refused.headers["content-type"]) == (421, "application/problem+json")
        assert refused.headers["x-request-id"] == refused.json()["request_id"] != ""


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET /v1/sessions/../../v1/self HTTP/1.1",
        b"GET //v1/self HTTP/1.1",
        b"GET /v1/%2e%2e/self HTTP/1.1",
        b"GET /V1/self HTTP/1.1",
        b"GET /v1/self%00 HTTP/1.1",
        b"GET http://127.0.0.1/v1/self HTTP/1.1",
        b"GET http://evil.example.org/v1/self HTTP/1.1",
        b"GET /v1/sessions/%ff%fe HTTP/1.1",
        b"GET /v1/sessions/%2Fetc%2Fpasswd HTTP/1.1",
        b"GET /v1//sessions HTTP/1.1",
        b"CONNECT 127.0.0.1:1 HTTP/1.1",
        b"TRACE /v1/self HTTP/1.1",
        b"GET * HTTP/1.1",
    ],
)
def test_strange_paths_show_nothing_without_a_token(service: Service, request_line: bytes) -> None:
    answer = raw(service, request_line + b"\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    status = int(answer.split(b" ", 2)[1])
    assert 400 <= status < 500, answer


def test_requests_that_are_not_http_are_refused(service: Service) -> None:
    twice = b"GET /v1/self HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil\r\nConnection: close\r\n\r\n"
    assert b" 400 " in raw(service, twice).split(b"\r\n")[0]
    large = b"GET /v1/self HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 200_000
    with suppress(ConnectionResetError):
        assert b"200 OK" not in raw(service, large)


def test_a_page_of_another_site_may_not_use_the_api(store: Store) -> None:
    service = Service(store, origins=("https://named.example.org",))
    try:
        owner = service.client("olga")
        assert owner.get("/v1/self", headers={"Origin": "https://evil.example.org"}).status_code == 403
        assert owner.get("/v1/self", headers={"Origin": "null"}).status_code == 403
        assert owner.get("/v1/self", headers={"Origin": service.address}).status_code == 200
        named = {"Origin": "https://named.example.org"}
        answer = owner.get("/v1/self", headers=named)
        assert answer.headers["access-control-allow-origin"] == named["Origin"]
        assert "access-control-allow-origin" not in owner.get("/v1/self").headers
        asked = owner.options("/v1/self", headers=named | {"Access-Control-Request-Method": "GET"})
        assert (asked.status_code, "Authorization" in asked.headers["access-control-allow-headers"]) == (204, True)
        refused = owner.options("/v1/self", headers={"Origin": "https://evil.example.org"})
        assert (refused.status_code, "access-control-allow-methods" in refused.headers) == (403, False)
    finally:
        service.close()


def test_a_caller_that_asks_too_often_waits(store: Store, clock: ManualClock) -> None:
    service = Service(store, requests_per_minute=3)
    try:
        owner, other = service.client("olga"), service.client("ada", "operator")
        found = [owner.get("/v1/self") for _ in range(6)]
        assert [one.status_code for one in found] == [200] * 3 + [429] * 3
        assert [int(one.headers["retry-after"]) for one in found[3:]] == [20] * 3
        assert other.get("/v1/self").status_code == 200
        assert 429 not in [owner.get(path).status_code for path in health.PATHS]
        again = service.with_token(service.token("olga").token)  # another token of the same person
        assert again.get("/v1/self").status_code == 429
        clock.advance(seconds=20)
        assert [one.get("/v1/self").status_code for one in (again, owner)] == [200, 429]
    finally:
        service.close()


def forged(number: int) -> dict[str, str]:
    return {"Authorization": f"Bearer prd_0123456789_{number:043}"}


def test_wrong_tokens_are_limited_by_address_and_refuse_no_known_caller(store: Store) -> None:
    service = Service(store, failures_per_minute=5)
    try:
        owner, late = service.client("olga"), service.client("ada", "operator")
        assert owner.get("/v1/self").status_code == 200
        stranger = service.with_token(None)
        found = [stranger.get("/v1/self", headers=forged(number)) for number in range(40)]
        assert [one.status_code for one in found] == [401] * 5 + [429] * 35
        assert [int(one.headers["retry-after"]) for one in found[5:]] == [12] * 35
        assert stranger.get("/v1/self").status_code == 429  # no token at all
        assert late.get("/v1/self").status_code == 429  # it was not known when the failures began
        assert owner.get("/v1/self").status_code == 200
        assert stranger.get("/openapi.json").status_code == 200
    finally:
        service.close()


def test_many_wrong_tokens_do_not_give_a_caller_a_new_rate(store: Store) -> None:
    """The rates of callers are kept apart from what clients can make up."""
    service = Service(store, requests_per_minute=3, failures_per_minute=1_000_000)
    try:
        owner, stranger = service.client("olga"), service.with_token(None)
        limits = service.app.state.rates
        assert [owner.get("/v1/self").status_code for _ in range(6)] == [200] * 3 + [429] * 3
        for number in range(20):
            assert stranger.get("/v1/self", headers=forged(number)).status_code == 401
        assert (len(limits.callers), owner.get("/v1/self").status_code) == (1, 429)
    finally:
        service.close()


@pytest.mark.parametrize(
    ("client", "passed", "behind_proxy", "address"),
    [
        ("10.0.0.1", None, False, "10.0.0.1"),
        ("10.0.0.1", "6.6.6.6", False, "10.0.0.1"),
        ("10.0.0.1", "6.6.6.6, 7.7.7.7", True, "7.7.7.7"),
        ("10.0.0.1", "forged", True, "10.0.0.1"),
        ("2001:db8::1", None, False, "2001:db8::/64"),
        ("2001:db8::ffff", None, False, "2001:db8::/64"),
    ],
)
def test_the_address_of_a_client_is_not_what_it_says(
    client: str, passed: str | None, behind_proxy: bool, address: str
) -> None:
    headers = [] if passed is None else [(b"x-forwarded-for", passed.encode())]
    request = Request({"type": "http", "client": (client, 1), "headers": headers})
    assert address_of(request, behind_proxy=behind_proxy) == address


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"content": b"{", "headers": {"Content-Type": "application/json"}}, 400),
        ({"content": b"\xff\xfe", "headers": {"Content-Type": "application/json"}}, 400),
        ({"content": b"[" * 100_000, "headers": {"Content-Type": "application/json"}}, 422),
        ({"content": b'{"program": "x"}', "headers": {"Content-Type": "text/plain"}}, 415),
        ({"json": {"program": "x" * 2_000_000}}, 413),
        ({"json": {"program": "service_end", "surprise": 1}}, 422),
        ({"json": {"program": "service_end", "arguments": {"other": "x"}}}, 422),
        ({"json": {"program": "service_end", "arguments": {"value": "x"}, "repository": "relative"}}, 422),
    ],
)
def test_bodies_that_are_wrong_change_nothing(
    service: Service, owner: httpx.Client, given: dict[str, Any], status: int
) -> None:
    refused = owner.post("/v1/sessions", **given)
    assert (refused.status_code, refused.headers["content-type"]) == (status, "application/problem+json")
    assert owner.get("/v1/sessions").json()["items"] == []


def test_long_answers_are_compressed_and_errors_name_their_request(service: Service, owner: httpx.Client) -> None:
    body = {"program": "service_end", "arguments": {"value": "x" * 20_000}, "id": "long"}
    owner.post("/v1/sessions", json=body)
    assert owner.get("/v1/sessions/long").headers["content-encoding"] == "gzip"
    assert "content-encoding" not in owner.get("/v1/self").headers
    refused = owner.get("/v1/sessions/none", headers={"X-Request-Id": "mine-1"})
    assert (refused.headers["x-request-id"], refused.json()["request_id"]) == ("mine-1", "mine-1")


def test_each_request_is_one_line_of_the_log_without_secrets(
    service: Service, owner: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    made = service.token("ada", "operator")
    ada = service.with_token(made.token)
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger="perdure.server")  # other tests set the level of `perdure`
    body = {"program": "service_end", "arguments": {"value": "a-secret"}, "id": "end"}
    ada.post("/v1/sessions", json=body, headers={"X-Request-Id": "mine-1"})
    ada.get("/v1/sessions", params={"owner": made.token}, headers={"X-Request-Id": made.token})
    ada.get(f"/v1/sessions/{made.token}", headers={"X-Request-Id": "mine-2"})
    service.with_token(None).get("/v1/self", headers=forged(1) | {"X-Request-Id": "mine-3"})
    owner.get("/healthz", headers={"Host": "evil.example.org", "X-Request-Id": "mine-4"})
    found = [one.getMessage() for one in caplog.records if one.name == "perdure.server"]
    shown = [re.sub(r"\d+ ms", "N ms", line) for line in found]
    assert shown[0] == "Request mine-1: POST sessions.start, 201, N ms, ada."
    assert shown[1].endswith(": GET sessions.list, 200, N ms, ada.")
    assert shown[2:] == [
        "Request mine-2: GET sessions.get, 404, N ms, ada.",
        "Request mine-3: GET -, 401, N ms, -.",
        "Request mine-4: GET -, 421, N ms, -.",
    ]
    secret = made.token.rpartition("_")[2]
    said = "\n".join(
        repr(one.__dict__) for one in caplog.records if not one.name.startswith("http")
    )  # not the client's
    assert all(word not in said for word in (secret, "a-secret", forged(1)["Authorization"].removeprefix("Bearer ")))


def test_answers_of_the_document_are_compressed_and_have_an_etag(service: Service, owner: httpx.Client) -> None:
    whole = owner.get("/openapi.json")
    assert (whole.status_code, whole.headers["content-encoding"]) == (200, "gzip")
    plain = owner.get("/openapi.json", headers={"Accept-Encoding": "gzip;q=0, identity"})
    assert ("content-encoding" in plain.headers, plain.json()) == (False, whole.json())
    again = owner.get("/openapi.json", headers={"If-None-Match": whole.headers["etag"]})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", whole.headers["etag"])
