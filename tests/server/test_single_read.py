"""What a request reads of the store, and how often: who asks, what it may, and its answer are one read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from perdure.store.store import Store
from perdure.store.writer.ticket import Ticket
from tests.server.support.service import Service
from tests.server.test_session_operations import start

pytestmark = pytest.mark.databases("sqlite", "postgres")


@contextmanager
def counted_reads(store: Store) -> Iterator[list[str]]:
    """The queries that are read meanwhile."""
    database: Any = store.database
    submit, found = database.submit_read, list[str]()

    def counted(ticket: Ticket[Any]) -> None:
        found.append(ticket.move.name)
        submit(ticket)

    database.submit_read = counted
    try:
        yield found
    finally:
        database.submit_read = submit


def test_a_request_that_reads_one_object_is_one_read(service: Service, owner: httpx.Client) -> None:
    start(owner, "service_end", "e", arguments={"value": "x"})
    for path in ("/v1/sessions/e", "/v1/sessions/e/events?after=0&limit=1", "/v1/sessions/e/events"):
        with counted_reads(service.store) as reads:
            assert owner.get(path).status_code == 200
        assert len(reads) == 1, path


@pytest.mark.parametrize(
    "path", ["/v1/sessions/none", "/v1/sessions/e/events?after=x", "/v1/no-such", "/v1/sessions/e/retry"]
)
def test_a_refused_request_is_one_read(service: Service, owner: httpx.Client, path: str) -> None:
    start(owner, "service_end", "e", arguments={"value": "x"})
    with counted_reads(service.store) as reads:
        assert owner.get(path).status_code in (404, 405, 422)
    assert len(reads) == 1


def test_without_a_token_nothing_is_read(service: Service) -> None:
    with counted_reads(service.store) as reads:
        assert service.with_token(None).get("/v1/sessions").status_code == 401
        malformed = {"Authorization": "Basic eDp5"}
        assert service.with_token(None).get("/v1/sessions", headers=malformed).status_code == 401
    assert reads == []


@pytest.mark.databases("sqlite")
def test_a_caller_that_asks_too_often_costs_no_read(store: Store) -> None:
    service = Service(store, requests_per_minute=2)
    try:
        owner = service.client("olga")
        assert 429 in [owner.get("/v1/self").status_code for _ in range(10)]
        with counted_reads(store) as reads:
            assert owner.get("/v1/self").status_code == 429
        assert reads == []
    finally:
        service.close()


def test_pages_of_events_end_with_the_last_event(service: Service, owner: httpx.Client) -> None:
    start(owner, "service_end", "e", arguments={"value": "x"})
    service.run("e")
    cursor = owner.get("/v1/sessions/e").json()["cursor"]
    numbers, after = list[int](), "0"
    while after is not None:
        page = owner.get("/v1/sessions/e/events", params={"after": after, "limit": 1}).json()
        numbers += [one["number"] for one in page["items"]]
        after = page["next"]
    assert numbers == list(range(1, cursor + 1))
    at_the_end = owner.get("/v1/sessions/e/events", params={"after": cursor}).json()
    assert at_the_end == {"items": [], "next": None}


def test_a_wrong_method_is_told_which_ones_there_are(service: Service, owner: httpx.Client) -> None:
    found = [owner.get("/v1/sessions/e/retry"), owner.put("/v1/sessions/e")]
    assert [(one.status_code, one.headers["allow"]) for one in found] == [(405, "POST"), (405, "GET, HEAD")]
    assert owner.head("/v1/self").status_code == 200
    assert service.with_token(None).put("/v1/sessions/e").status_code == 401
