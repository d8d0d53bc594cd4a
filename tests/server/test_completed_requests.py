"""Requests with a key whose service fails at any of their moves: sent again, they are not carried out twice."""

from __future__ import annotations

import httpx
import pytest

from perdure import faults
from tests.server.support.service import PATIENCE, Service
from tests.server.test_idempotency import KEY, MOVE
from tests.server.test_session_operations import start

pytestmark = pytest.mark.databases("sqlite", "postgres")
MOVES = (1, 2, 3, 4)  # more than each of these requests makes


def post_and_fail(client: httpx.Client, path: str, headers: dict[str, str], *, number: int) -> None:
    """Send a request; the service fails before a move of it."""
    left = iter([*[False] * (number - 1), True])

    def fail(point: str) -> None:
        if point == "move.before" and next(left, False):
            raise RuntimeError(point)

    faults.arm(fail)
    with httpx.Client(base_url=client.base_url, headers=client.headers, timeout=PATIENCE, trust_env=False) as other:
        other.post(path, headers=headers)  # the connection of an error is closed
    faults.arm(lambda _: None)


def status(client: httpx.Client, id: str) -> str:
    return str(client.get(f"/v1/sessions/{id}").json()["status"])


@pytest.mark.parametrize("program", ["service_failure", "service_parent"])
def test_a_retry_with_a_key_is_made_once(program: str, service: Service, owner: httpx.Client) -> None:
    for number in MOVES:
        id, key = f"f{number}", {"Idempotency-Key": f"key-{number}"}
        start(owner, program, id, arguments={"value": id})
        assert service.run(id) == "failed"
        post_and_fail(owner, f"/v1/sessions/{id}/retry", key, number=number)
        if status(owner, id) == "ready":
            assert service.run(id) == "failed"
        again = owner.post(f"/v1/sessions/{id}/retry", headers=key)
        assert (again.status_code, again.json().get("retries")) == (200, 1)


def test_a_resume_with_a_key_does_not_undo_a_later_pause(service: Service, owner: httpx.Client) -> None:
    for number in MOVES:
        id, key = f"m{number}", {"Idempotency-Key": f"key-{number}"}
        start(owner, "service_inbox", id, arguments={"label": id})
        owner.post(f"/v1/sessions/{id}/interrupt")
        owner.post(f"/v1/sessions/{id}/pause")
        path = f"/v1/sessions/{id}"
        post_and_fail(owner, f"{path}/resume", key, number=number)
        was_made = owner.get(path).json()["pause_requested_at"] is None
        assert (owner.get(path).json()["interrupt_requested_at"] is None) == was_made  # all of it, or nothing
        if was_made:
            owner.post(f"{path}/pause")
        again = owner.post(f"{path}/resume", headers=key)
        assert (again.status_code, again.json()["pause_requested_at"] is not None) == (200, was_made)


def test_a_moved_session_that_came_back_is_not_sealed_again(service: Service, owner: httpx.Client) -> None:
    start(owner, "service_inbox", "m", arguments={"label": "x"})
    moved = owner.post("/v1/sessions/m/export", json=MOVE, headers=KEY)
    assert owner.post("/v1/sessions/m/export", json=MOVE, headers=KEY).status_code == 200
    back = owner.post(
        "/v1/import", params={"take_back": True}, content=moved.content, headers={"Content-Type": "application/zip"}
    )
    assert back.status_code == 201, back.text
    again = owner.post("/v1/sessions/m/export", json=MOVE, headers=KEY)
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    assert owner.get("/v1/sessions/m").json()["sealed_at"] is None
