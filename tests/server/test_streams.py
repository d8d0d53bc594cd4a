"""Events as they come: history handed over to live, fanned out, ended with a reason."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from perdure.runtime.live_text.delta import LiveTextHeader
from perdure.server.operation import EVENT_STREAM
from perdure.store.moves import session as sessions
from perdure.store.store import Store
from perdure.testing.proxy import wait_until
from tests.server.support.service import PATIENCE, Service
from tests.server.test_session_operations import start

pytestmark = pytest.mark.databases("sqlite", "postgres")
STREAM = {"Accept": EVENT_STREAM}


def messages(answer: httpx.Response) -> Iterator[dict[str, Any]]:
    """The events of a stream; comments and fields without an event are left out."""
    found: dict[str, Any] = {}
    for line in answer.iter_lines():
        name, _, value = line.partition(": ")
        if line.startswith(":"):
            continue
        if line:
            found[name] = json.loads(value) if name in ("data", "id") else value
        elif found:
            if "data" in found:
                yield found
            found = {}


@contextmanager
def reading(client: httpx.Client, path: str, **headers: str) -> Iterator[Iterator[dict[str, Any]]]:
    with client.stream("GET", path, headers=STREAM | headers) as answer:
        assert (answer.status_code, answer.headers["content-type"][:17]) == (200, EVENT_STREAM)
        yield messages(answer)


def numbers(found: Iterator[dict[str, Any]], last: int) -> list[int]:
    """The numbers that come, up to one of them."""
    seen = list[int]()
    for one in found:
        assert one["data"]["number"] == one["id"]
        seen.append(one["id"])
        if one["id"] >= last:
            break
    return seen


def rename(store: Store, uid: str, times: int) -> None:
    """Append so many events to a session."""
    for _ in range(times):
        found = store.read_now(sessions.get, uid)
        store.write_now(sessions.describe(uid, "ada", expected=found.version, title=f"t{found.version}"))


def test_history_is_handed_over_to_live_without_gap_or_repetition(service: Service, owner: httpx.Client) -> None:
    uid = str(start(owner, "service_inbox", "m", arguments={"label": "x"})["uid"])
    rename(service.store, uid, 30)
    cursor = service.store.read_now(sessions.get, uid).cursor
    writer = threading.Thread(target=rename, args=(service.store, uid, 60))
    found: list[list[int]] = []

    def follow(after: int) -> None:
        with reading(owner, "/v1/sessions/m/events", **{"Last-Event-ID": str(after)}) as lines:
            found.append(numbers(lines, cursor + 60))

    readers = [threading.Thread(target=follow, args=(after,)) for after in (0, 7, cursor)]
    for one in (*readers, writer):
        one.start()
    for one in (*readers, writer):
        one.join(PATIENCE)
    assert sorted(found, key=len) == [list(range(first + 1, cursor + 61)) for first in (cursor, 7, 0)]


def test_a_number_beyond_the_log_is_refused(service: Service, owner: httpx.Client) -> None:
    start(owner, "service_end", "e", arguments={"value": "x"})
    for given in ("99", "-1", "x", "9" * 30):
        refused = owner.get("/v1/sessions/e/events", headers=STREAM | {"Last-Event-ID": given})
        assert (refused.status_code, refused.json()["code"]) == (422, "config")


def test_one_tail_reads_the_log_for_all_subscribers(service: Service, owner: httpx.Client) -> None:
    uid = str(start(owner, "service_inbox", "m", arguments={"label": "x"})["uid"])
    cursor = service.store.read_now(sessions.get, uid).cursor
    with (
        reading(owner, "/v1/sessions/m/events", **{"Last-Event-ID": str(cursor)}) as one,
        reading(owner, "/v1/sessions/m/events", **{"Last-Event-ID": str(cursor)}) as other,
    ):
        tails = service.app.state.tails._tails
        wait_until(lambda: uid in tails and len(tails[uid].subscribers) == 2, "both share a tail")
        rename(service.store, uid, 1)
        assert (numbers(one, cursor + 1), numbers(other, cursor + 1)) == ([cursor + 1], [cursor + 1])
    wait_until(lambda: not tails, "the tail ended with its last subscriber")


@pytest.mark.parametrize("how", ["revoked", "role", "moved"])
def test_a_stream_ends_when_its_caller_may_not_read_any_more(store: Store, how: str) -> None:
    service = Service(store, recheck=0.05)
    try:
        owner = service.client("olga")
        uid = str(start(owner, "service_inbox", "m", arguments={"label": "x"}, queue="a")["uid"])
        token = service.token("bob", "operator", scopes=("queue:a",))
        with reading(service.with_token(token.token), "/v1/sessions/m/events") as lines:
            assert next(lines)["id"] == 1
            if how == "revoked":
                owner.post(f"/v1/tokens/{token.view.id}/revoke")
            elif how == "role":
                owner.post("/v1/principals/bob", json={"roles": ["worker"]})
            else:
                found = store.read_now(sessions.get, uid)
                store.write_now(sessions.describe(uid, "olga", expected=found.version, queue="b"))
            ended = [one for one in lines if one.get("event") == "closed"]
        assert ended[-1]["data"] == {"reason": "access"}
    finally:
        service.close()


def test_a_stream_ends_with_the_service_and_is_continued(service: Service, owner: httpx.Client) -> None:
    uid = str(start(owner, "service_inbox", "m", arguments={"label": "x"})["uid"])
    with reading(owner, "/v1/sessions/m/events") as lines:
        first = next(lines)["id"]
        service.stop()
        assert list(lines)[-1] == {"event": "closed", "data": {"reason": "stopping"}}
    other = Service(service.store, is_first=False)
    try:
        rename(service.store, uid, 1)
        again = other.with_token(owner.headers["authorization"].removeprefix("Bearer "))
        with reading(again, "/v1/sessions/m/events", **{"Last-Event-ID": str(first)}) as lines:
            assert next(lines)["id"] == first + 1
    finally:
        other.close()


@pytest.mark.databases("sqlite")
def test_a_client_that_takes_nothing_is_dropped(service: Service, owner: httpx.Client, store: Store) -> None:
    uid = str(start(owner, "service_inbox", "m", arguments={"label": "x"})["uid"])
    impatient = Service(store, is_first=False, slow=0.1, heartbeat=0.1)
    try:
        owner = impatient.client("olga")
        host, _, port = impatient.address.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            head = f"GET /v1/sessions/m/events HTTP/1.1\r\nHost: {host}\r\nAccept: {EVENT_STREAM}\r\n"
            slow.sendall(f"{head}Authorization: {owner.headers['authorization']}\r\n\r\n".encode())
            assert slow.recv(12) == b"HTTP/1.1 200"  # and no more
            streams = impatient.app.state.admission._streams

            def is_dropped() -> bool:
                """Whether the stream has ended; the system keeps megabytes for a client, so there is always more."""
                found = store.read_now(sessions.get, uid)
                title = f"{found.version}" + "x" * 99_000
                store.write_now(sessions.describe(uid, "ada", expected=found.version, title=title))
                return not streams

            wait_until(is_dropped, "the stream was dropped")
        rename(store, uid, 1)
        cursor = store.read_now(sessions.get, uid).cursor
        with reading(owner, "/v1/sessions/m/events", **{"Last-Event-ID": str(cursor - 1)}) as lines:
            assert next(lines)["id"] == cursor  # it can come back
    finally:
        impatient.close()


def test_a_caller_has_a_limited_number_of_streams(store: Store) -> None:
    service = Service(store, streams_per_caller=1)
    try:
        owner = service.client("olga")
        start(owner, "service_end", "e", arguments={"value": "x"})
        with reading(owner, "/v1/sessions/e/events") as lines:
            next(lines)
            refused = owner.get("/v1/sessions/e/events", headers=STREAM)
            assert (refused.status_code, refused.json()["code"]) == (429, "too-many-requests")
    finally:
        service.close()


@pytest.mark.databases("sqlite")
def test_live_text_has_a_channel_of_its_own(service: Service, owner: httpx.Client) -> None:
    uid = str(start(owner, "service_inbox", "m", arguments={"label": "x"})["uid"])
    folder = service.runtime.live_text.folder
    assert folder is not None
    file = service.runtime.live_text.begin(uid, LiveTextHeader("call-1", 3))
    assert file is not None
    file.append("Hel")
    with reading(owner, "/v1/sessions/m/live") as lines:
        assert next(lines) == {"event": "text", "data": {"call": "call-1", "after": 3, "text": "Hel"}}
        file.append("lo")
        assert next(lines)["data"]["text"] == "lo"
        with reading(owner, "/v1/sessions/m/live") as late:
            assert next(late)["data"]["text"] == "Hello"
        file.close(recorded=False)
        assert next(lines)["event"] == "discard"
