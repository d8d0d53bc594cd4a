"""Sessions over HTTP: start, read, steer."""

from __future__ import annotations

import httpx
import pytest

from tests.server.support.service import Service

pytestmark = pytest.mark.databases("sqlite", "postgres")


def start(client: httpx.Client, program: str, id: str, **body: object) -> dict[str, object]:
    found = client.post("/v1/sessions", json={"program": program, "id": id, **body})
    assert found.status_code == 201, found.text
    made: dict[str, object] = found.json()
    return made


def test_a_session_is_started_answered_and_read(service: Service, owner: httpx.Client) -> None:
    made = start(owner, "service_question", "q/1", arguments={"text": "Ready?"})
    assert (made["owner"], made["status"]) == ("olga", "ready")
    assert service.run("q/1") == "waiting"
    found = owner.get("/v1/sessions/q%2F1")
    asked = found.json()["waits"][0]
    assert found.headers["etag"] == f'"{found.json()["cursor"]}"'
    assert owner.post(f"/v1/waits/{asked['id']}/answer", json={"answer": "maybe"}).status_code == 422
    assert owner.post(f"/v1/waits/{asked['id']}/answer", json={"answer": "yes"}).json()["answer"] == "yes"
    assert service.run("q/1") == "done"
    assert owner.get("/v1/sessions/q%2F1").json()["result"] == "yes"
    kinds = [one["kind"] for one in owner.get("/v1/sessions/q%2F1/events").json()["items"]]
    assert (kinds[0], kinds[-1]) == ("session.created", "session.finished")
    assert owner.get("/v1/sessions/q%2F1/state", params={"number": 1}).json()["session"]["status"] == "ready"
    assert owner.get("/v1/sessions/q%2F1/state", params={"number": 99}).status_code == 422


def test_requests_to_a_session_change_it(service: Service, owner: httpx.Client) -> None:
    start(owner, "service_inbox", "m", arguments={"label": "x"})
    assert service.run("m") == "waiting"
    assert owner.post("/v1/sessions/m/rename", json={"title": "Other"}).json()["title"] == "Other"
    assert owner.post("/v1/sessions/m/pause").json()["pause_requested_at"] is not None
    assert owner.post("/v1/sessions/m/resume").json()["pause_requested_at"] is None
    sent = owner.post("/v1/sessions/m/send", json={"text": "hello", "message_id": "m-1"})
    assert (sent.json()["id"], sent.json()["sender"]) == ("m-1", "olga")
    branch = owner.post("/v1/sessions/m/fork", json={"id": "m-branch", "at": 1})
    assert (branch.status_code, branch.json()["forked_at"]) == (201, 1)
    assert owner.get("/v1/sessions/m/brief").json()["session"] == "m"
    assert owner.get("/v1/sessions/m/plan").json() == []
    assert service.run("m") == "done"
    start(owner, "service_question", "c", arguments={"text": "?"})
    assert owner.post("/v1/sessions/c/cancel").json()["status"] == "cancelled"
    assert owner.post("/v1/sessions/c/archive").json()["archived_at"] is not None
    assert owner.post("/v1/sessions/c/retry").json()["code"] == "illegal-move"
    gone = owner.post("/v1/sessions/c/remove", json={"because": "it was a test"})
    assert (gone.status_code, gone.json()["id"]) == (200, "c")
    assert owner.get("/v1/sessions/c").status_code == 404


def test_a_failed_session_is_listed_and_retried(service: Service, owner: httpx.Client) -> None:
    start(owner, "service_failure", "f", arguments={"value": "broken"})
    assert service.run("f") == "failed"
    assert [one["id"] for one in owner.get("/v1/failed").json()["items"]] == ["f"]
    assert owner.post("/v1/sessions/f/retry").json()["status"] == "ready"
    assert owner.get("/v1/failed").json()["items"] == []


def test_the_vote_is_that_of_the_token(service: Service, owner: httpx.Client) -> None:
    grace = service.client("grace", "approver")
    start(owner, "service_release", "r", arguments={"page": "p"}, owner="linus")
    assert service.run("r") == "waiting"
    (asked,) = grace.get("/v1/approvals", params={"decision": "waiting"}).json()["items"]
    details = grace.get(f"/v1/approvals/{asked['id']}").json()
    assert (details["effect"]["intent"], details["session"]) == ({"page": "p"}, "r")
    path = f"/v1/approvals/{asked['id']}/approve"
    assert grace.post(path, json={"because": "ok", "by": "linus"}).status_code == 422
    assert owner.post("/v1/sessions/r/send", json={"text": "x"}).status_code == 422  # it reads no messages
    assert grace.post(path, json={"because": "ok"}).json()["decision"] == "approved"
    (vote,) = grace.get(f"/v1/approvals/{asked['id']}").json()["votes"]
    assert (vote["voter"], vote["identity"][:6]) == ("grace", "token:")
    assert service.run("r") == "done"
    (effect,) = grace.get("/v1/effects", params={"session": "r"}).json()["items"]
    assert grace.get(f"/v1/effects/{effect['id']}").json()["result"] == "published p"


def test_a_doubt_is_settled_by_who_may(service: Service, owner: httpx.Client) -> None:
    start(owner, "service_doubt", "d", arguments={"page": "p"})
    assert service.run("d") == "waiting"
    (effect,) = owner.get("/v1/effects", params={"in_doubt": True}).json()["items"]
    path = f"/v1/effects/{effect['id']}/settle"
    verdict = {"verdict": "happened", "because": "I saw it", "result": "ok"}
    assert service.client("grace", "approver").post(path, json=verdict).status_code == 403
    assert owner.post(path, json=verdict).json()["verdict_by"] == "olga"
    assert service.run("d") == "done"


def test_lists_are_paged_without_gap_or_repetition(service: Service, owner: httpx.Client) -> None:
    for number in range(5):
        start(owner, "service_end", f"s-{number}", arguments={"value": "x"}, queue="a" if number % 2 else "b")
    seen, after = list[str](), None
    while True:
        query = {"limit": "2"} | ({"after": after} if after else {})
        page = owner.get("/v1/sessions", params=query).json()
        seen += [one["id"] for one in page["items"]]
        if (after := page["next"]) is None:
            break
    assert sorted(seen) == [f"s-{number}" for number in range(5)]
    some = service.client("bob", "operator", scopes=("queue:a",))
    assert {one["id"] for one in some.get("/v1/sessions").json()["items"]} == {"s-1", "s-3"}
    assert some.get("/v1/sessions/s-0").status_code == 404
    assert owner.get("/v1/sessions", params={"after": "nonsense"}).status_code == 422
