"""Requests that are sent again: carried out once, and answered again."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from perdure import faults
from perdure.domain.request import CarriedOut
from perdure.errors import RequestInFlight
from perdure.store.moves import event, inbox, request
from perdure.store.moves import session as sessions
from perdure.testing import ManualClock
from tests.server.support.service import Service
from tests.server.test_session_operations import start

pytestmark = pytest.mark.databases("sqlite", "postgres")
KEY = {"Idempotency-Key": "key-1"}
MOVE = {"move": True}
BODY = {"program": "service_inbox", "arguments": {"label": "x"}}


def test_a_start_without_an_id_starts_one_session(service: Service) -> None:
    ada, bob = service.client("ada", "operator"), service.client("bob", "operator")
    first, second = (ada.post("/v1/sessions", json=BODY, headers=KEY) for _ in range(2))
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json()["uid"] == second.json()["uid"]
    other = bob.post("/v1/sessions", json=BODY, headers=KEY)  # a key belongs to its caller
    assert other.json()["uid"] != first.json()["uid"]
    assert len(service.store.read_now(sessions.page)) == 2


def test_a_key_of_another_request_is_refused(service: Service) -> None:
    ada = service.client("ada", "operator")
    assert ada.post("/v1/sessions", json=BODY, headers=KEY).status_code == 201
    other = ada.post("/v1/sessions", json=BODY | {"title": "other"}, headers=KEY)
    assert (other.status_code, "another request" in other.json()["detail"]) == (422, True)
    assert ada.post("/v1/sessions", json=BODY, headers={"Idempotency-Key": "a b"}).status_code == 400


def test_a_message_is_sent_once(service: Service) -> None:
    ada = service.client("ada", "operator")
    uid = ada.post("/v1/sessions", json=BODY).json()["uid"]
    first, second = (ada.post(f"/v1/sessions/{uid}/send", json={"text": "hi"}, headers=KEY) for _ in range(2))
    assert first.json() == second.json()
    assert len(service.store.read_now(inbox.unread, uid)) == 1


def test_a_repeated_request_does_not_undo_what_came_later(service: Service) -> None:
    ada = service.client("ada", "operator")
    uid = ada.post("/v1/sessions", json=BODY).json()["uid"]
    assert ada.post(f"/v1/sessions/{uid}/pause", headers=KEY).json()["pause_requested_at"] is not None
    ada.post(f"/v1/sessions/{uid}/resume")
    again = ada.post(f"/v1/sessions/{uid}/pause", headers=KEY)
    assert (again.status_code, again.json()["pause_requested_at"]) == (200, None)


def test_a_request_that_was_refused_keeps_no_key(service: Service) -> None:
    ada = service.client("ada", "operator")
    assert ada.post("/v1/sessions", json={"program": "nowhere"}, headers=KEY).status_code == 422
    assert ada.post("/v1/sessions", json=BODY, headers=KEY).status_code == 201


def test_the_key_is_in_the_transaction_of_the_move(service: Service) -> None:
    ada = service.client("ada", "operator")
    uid = ada.post("/v1/sessions", json=BODY, headers=KEY).json()["uid"]
    principal = ada.get("/v1/self").json()["name"]
    assert principal == "ada"
    (line,) = [one for one in service.store.read_now(event.after, uid, 0) if one.kind == "session.created"]
    found = [
        one for one in service.store.read_now(lambda tx: tx.all("request.listing", limit=10)) if one[6] == line.move_id
    ]
    assert len(found) == 1


def rows(service: Service) -> list[CarriedOut]:
    found = service.store.read_now(lambda tx: tx.all("request.listing", limit=10))
    return [CarriedOut.from_row(row) for row in found]


def begun(service: Service) -> tuple[httpx.Client, CarriedOut]:
    """An export with `move` that fails after its first move, which seals the session."""
    ada = service.client("ada", "operator")
    start(ada, "service_inbox", "m", arguments={"label": "x"})
    fails = iter([True])

    def fail(point: str) -> None:
        if point == "bundle.synced" and next(fails, False):
            raise RuntimeError(point)

    faults.arm(fail)
    assert ada.post("/v1/sessions/m/export", json=MOVE, headers=KEY).status_code == 500
    (row,) = rows(service)
    assert (row.state, row.holder) == ("begun", None)
    return ada, row


def test_a_request_that_was_begun_is_completed(service: Service) -> None:
    """The service fails between the moves of a request: the same request again completes it."""
    ada, _ = begun(service)
    sealed = ada.get("/v1/sessions/m").json()["sealed_at"]
    assert sealed is not None
    again = ada.post("/v1/sessions/m/export", json=MOVE, headers=KEY)
    assert (again.status_code, again.headers["content-type"]) == (200, "application/zip")
    assert ada.get("/v1/sessions/m").json()["sealed_at"] == sealed
    assert [one.state for one in rows(service)] == ["done"]


def test_a_request_that_another_process_carries_out_is_left_alone(service: Service, clock: ManualClock) -> None:
    ada, row = begun(service)
    of = {"caller": row.caller, "key": row.idempotency_key}
    service.store.write_now(request.hold(**of, holder="another"))
    refused = ada.post("/v1/sessions/m/export", json=MOVE, headers=KEY)
    assert (refused.status_code, refused.json()["code"]) == (409, "request-in-flight")
    assert 1 <= int(refused.headers["retry-after"]) <= 30
    clock.advance(seconds=31)  # it was killed
    assert ada.post("/v1/sessions/m/export", json=MOVE, headers=KEY).status_code == 200
    with pytest.raises(RequestInFlight):
        service.store.write_now(request.hold(**of, holder="another"))


def test_a_process_that_lost_its_hold_makes_no_move(service: Service, clock: ManualClock) -> None:
    _, row = begun(service)
    of = {"caller": row.caller, "key": row.idempotency_key}
    service.store.write_now(request.hold(**of, holder="slow"))
    clock.advance(seconds=31)
    service.store.write_now(request.hold(**of, holder="other"))
    (held,) = rows(service)
    with pytest.raises(RequestInFlight):
        request.check_holder(held, "slow")
    request.check_holder(held, "other")
    service.store.write_now(request.finish(**of, operation=row.operation, digest=row.digest, ids={}, holder="slow"))
    assert [one.state for one in rows(service)] == ["begun"]


def test_a_change_of_what_was_not_read_is_refused(service: Service) -> None:
    ada = service.client("ada", "operator")
    start(ada, "service_inbox", "m", arguments={"label": "x"})
    tag = {"If-Match": ada.get("/v1/sessions/m").headers["etag"]}
    assert ada.post("/v1/sessions/m/rename", json={"title": "a"}, headers=tag).status_code == 200
    late = ada.post("/v1/sessions/m/rename", json={"title": "b"}, headers=tag)
    assert (late.status_code, late.json()["code"]) == (412, "version-changed")
    assert ada.get("/v1/sessions/m").json()["title"] == "a"


SCHEDULE = {"program": "service_end", "arguments": {"value": "x"}, "every": "1h"}
VERSIONED: dict[str, Callable[[int], dict[str, Any]]] = {  # different changes of what has this path
    "queues/q": lambda number: {"concurrency": 2 + number},
    "schedules/s": lambda number: SCHEDULE | {"every": f"{2 + number}h"},
    "policy": lambda number: {"source": f'default = "ask"  # {number}\n', "because": "x"},
}


@pytest.mark.parametrize("what", VERSIONED)
def test_records_with_a_version_change_once_for_each(what: str, service: Service, owner: httpx.Client) -> None:
    owner.post("/v1/queues/q", json={"concurrency": 1})
    owner.post("/v1/schedules/s", json=SCHEDULE)
    path, body = f"/v1/{what}", VERSIONED[what]
    tag = {"If-Match": owner.get(path).headers["etag"]}
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda number: owner.post(path, json=body(number), headers=tag), range(4)))
    (made,) = [one for one in answers if one.status_code == 200]
    assert {one.status_code for one in answers} <= {200, 409, 412}
    assert made.headers["etag"] == owner.get(path).headers["etag"] != tag["If-Match"]
    late = owner.post(path, json=body(9), headers=tag)
    assert (late.status_code, late.json()["code"]) == (412, "version-changed")
    assert owner.post(path, json=body(9), headers={"If-Match": made.headers["etag"]}).status_code == 200


def test_a_principal_is_changed_as_it_was_read(service: Service, owner: httpx.Client) -> None:
    made = owner.post("/v1/principals", json={"name": "grace", "roles": ["approver"]})
    tag = {"If-Match": made.headers["etag"]}
    assert owner.post("/v1/principals/grace", json={"roles": ["operator"]}, headers=tag).status_code == 200
    late = owner.post("/v1/principals/grace", json={"roles": ["auditor"]}, headers=tag)
    assert (late.status_code, late.json()["code"]) == (412, "version-changed")
    refused = owner.post("/v1/facts", json={"key": "k", "value": 1, "scope": "t"}, headers=tag)
    assert (refused.status_code, "has `expected` in the body" in refused.json()["hint"]) == (400, True)


def test_a_vote_is_for_the_call_that_was_shown(service: Service, owner: httpx.Client) -> None:
    start(owner, "service_release", "r", arguments={"page": "p"})
    service.run("r")
    (asked,) = owner.get("/v1/approvals").json()["items"]
    ada = service.client("ada", "approver")
    for word in ("approve", "deny"):
        other = {"because": "x", "intent_digest": "0" * 64}
        refused = ada.post(f"/v1/approvals/{asked['id']}/{word}", json=other)
        assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    shown = {"because": "x", "intent_digest": asked["intent_digest"]}
    assert ada.post(f"/v1/approvals/{asked['id']}/approve", json=shown).json()["decision"] == "approved"


def test_old_requests_are_forgotten(service: Service) -> None:
    ada = service.client("ada", "operator")
    ada.post("/v1/sessions", json=BODY, headers=KEY)
    assert service.store.write_now(request.forget(service.store.clock.now() + 1)) == 1
    assert ada.post("/v1/sessions", json=BODY, headers=KEY).status_code == 201
    assert len(service.store.read_now(sessions.page)) == 2
