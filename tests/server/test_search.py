"""Search over HTTP: in the scope of the caller, in pages, and in the access log."""

from __future__ import annotations

import httpx
import pytest

from perdure.store.store import Store
from tests.server.support.service import Service
from tests.server.test_session_operations import start
from tests.store.support.sessions import rows

pytestmark = pytest.mark.databases("sqlite", "postgres")


def ids(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [one["session_id"] for one in answer.json()["items"]]


def test_search_shows_only_what_the_caller_may_see(service: Service, owner: httpx.Client) -> None:
    start(owner, "service_end", "one", arguments={"value": "apples"}, queue="a", title="Apples today")
    start(owner, "service_end", "two", arguments={"value": "pears"}, queue="b", title="Apples tomorrow")
    assert sorted(ids(owner.get("/v1/search", params={"text": "appl"}))) == ["one", "two"]
    some = service.client("bob", "operator", scopes=("queue:a",))
    assert ids(some.get("/v1/search", params={"text": "apples"})) == ["one"]
    assert some.get("/v1/search", params={"text": "apples", "session": "two"}).status_code == 404
    nothing = owner.get("/v1/search", params={"text": "--"})
    assert (nothing.status_code, nothing.json()["code"]) == (422, "config")


def test_hits_come_in_pages_without_repetition(owner: httpx.Client) -> None:
    for number in range(7):
        start(owner, "service_end", f"s-{number}", arguments={"value": "x"}, title="Apples")
    seen: list[str] = []
    asked: dict[str, str] = {"text": "apples", "limit": "3"}
    while True:
        page = owner.get("/v1/search", params=asked)
        seen += ids(page)
        if page.json()["next"] is None:
            break
        asked["after"] = page.json()["next"]
    assert sorted(seen) == [f"s-{number}" for number in range(7)]
    assert page.json()["is_complete"] is True
    wrong = owner.get("/v1/search", params={"text": "apples", "after": "zzz"})
    assert wrong.status_code == 422


def test_search_is_in_the_access_log_where_the_policy_asks(service: Service, owner: httpx.Client, store: Store) -> None:
    start(owner, "service_end", "one", arguments={"value": "apples"}, title="Apples")
    changed = owner.post(
        "/v1/policy", json={"source": "default = 'allow'\n[log_access]\ntranscript = true\n", "because": "test"}
    )
    assert changed.status_code == 200, changed.text
    other = service.client("amy", "auditor")
    assert ids(other.get("/v1/search", params={"text": "apples"})) == ["one"]
    assert len(rows(store, "access")) == 1
