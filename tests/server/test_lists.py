"""Lists in pages: complete, in order, and read by key whatever a caller may see."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import httpx
import pytest

from perdure.store.store import Store
from tests.server.support.service import Service
from tests.server.test_session_operations import start

SESSIONS, LIMIT = 6, 2
LISTS: dict[str, tuple[dict[str, str], str]] = {  # the parameters, and what tells the items apart
    "effects": ({}, "session_uid"),
    "approvals": ({}, "session_uid"),
    "waits": ({"kind": "approval"}, "session_uid"),
    "artifacts": ({}, "session_uid"),
    "decisions": ({}, "session_uid"),
    "facts": ({}, "scope"),
    "failed": ({}, "uid"),
}


class Reads:
    """What a service reads from its store while it is watched."""

    def __init__(self, store: Store) -> None:
        self.reads = self.rows = 0
        read: Callable[..., Coroutine[Any, Any, Any]] = store.read

        async def counted(query: Any, *given: Any, **named: Any) -> Any:
            found = await read(query, *given, **named)
            self.reads += 1
            self.rows += len(found) if isinstance(found, list) else 1
            return found

        store.read = counted  # type: ignore[method-assign]

    def of(self, client: httpx.Client, path: str, **params: Any) -> tuple[dict[str, Any], int, int]:
        """A page, and how many reads and rows it took."""
        self.reads = self.rows = 0
        answer = client.get(f"/v1/{path}", params=params)
        assert answer.status_code == 200, answer.text
        return answer.json(), self.reads, self.rows


@pytest.mark.databases("sqlite", "postgres")
def test_every_list_is_paged_by_key(service: Service, owner: httpx.Client) -> None:
    for number in range(SESSIONS):
        queue, id = "ab"[number % 2], str(number)
        start(owner, "service_records", f"r{id}", arguments={"page": id}, queue=queue)
        start(owner, "service_failure", f"f{id}", arguments={"value": id}, queue=queue)
        assert (service.run(f"r{id}"), service.run(f"f{id}")) == ("waiting", "failed")
    some = service.client("bob", "operator", scopes=("queue:a",))
    some.get("/v1/self")
    reads = Reads(service.app.state.runtime.store)
    for path, (params, of) in LISTS.items():
        whole, _, _ = reads.of(owner, path, **params)
        found = list[Any]()
        after: dict[str, str] | None = {}
        while after is not None:
            page, count, rows = reads.of(owner, path, limit=LIMIT, **params, **after)
            assert (path, count <= 4, rows <= LIMIT + 1 + 3) == (path, True, True)
            found += page["items"]
            after = None if page["next"] is None else {"after": page["next"]}
        assert (path, found) == (path, whole["items"])
        assert len({one[of] for one in found}) == len(found) == SESSIONS
        seen, count, _ = reads.of(some, path, **params)
        assert (path, len(seen["items"]), count <= 4) == (path, SESSIONS // 2, True)
        first, _, _ = reads.of(some, path, limit=LIMIT, **params)
        rest, _, _ = reads.of(some, path, limit=LIMIT, after=first["next"], **params)
        assert (path, first["items"] + rest["items"], rest["next"]) == (path, seen["items"], None)
    (oldest, *_) = owner.get("/v1/approvals").json()["items"]
    denied = service.client("ada", "approver").post(f"/v1/approvals/{oldest['id']}/deny", json={"because": "x"})
    assert denied.status_code == 200, denied.text
    parts, _, _ = reads.of(owner, "approvals", limit=SESSIONS - 1)
    decided, _, _ = reads.of(owner, "approvals", limit=LIMIT, after=parts["next"])
    assert [one["decision"] for one in parts["items"] + decided["items"]] == [None] * (SESSIONS - 1) + ["denied"]
    assert len(reads.of(owner, "approvals", decision="waiting")[0]["items"]) == SESSIONS - 1
    assert len(reads.of(owner, "approvals", decision="denied")[0]["items"]) == 1
    assert owner.get("/v1/approvals", params={"after": "forged"}).status_code == 422
