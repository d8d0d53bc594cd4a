"""A start that gets, changes or stops another session: only one that the caller may see."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.support.service import Service

pytestmark = pytest.mark.databases("sqlite", "postgres")

SECRET = {"program": "service_end", "arguments": {"value": "x"}, "id": "secret", "queue": "b", "key": "k"}


@pytest.fixture
def secret(owner: httpx.Client) -> dict[str, Any]:
    made: dict[str, Any] = owner.post("/v1/sessions", json=SECRET | {"title": "hidden"}).json()
    return made


@pytest.mark.parametrize("more", [{}, {"arguments": {"value": "y"}}, {"debounce": "1h"}, {"on_conflict": "keep"}])
def test_a_known_id_elsewhere_shows_nothing(service: Service, secret: dict[str, Any], more: dict[str, Any]) -> None:
    eve = service.client("eve", "operator", scopes=("queue:a",))
    headers = {"Idempotency-Key": "once"}
    for _ in range(2):  # the repeated request is answered from what is kept
        refused = eve.post("/v1/sessions", json=SECRET | {"queue": "a"} | more, headers=headers)
        assert (refused.status_code, "hidden" in refused.text) == (409, False)
        assert "with another program or other arguments" in refused.json()["detail"]  # also where they are equal


@pytest.mark.parametrize("more", [{"on_conflict": "keep"}, {"on_conflict": "replace"}, {"debounce": "1h"}])
def test_a_repository_alone_gives_no_right_to_sessions_of_the_queue(
    service: Service, owner: httpx.Client, secret: dict[str, Any], more: dict[str, Any], tmp_path: Path
) -> None:
    for words in (["init", "-q"], ["remote", "add", "origin", "https://git.example.org/team/project.git"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    eve = service.client("eve", "operator", scopes=("repository:*",))
    wanted = SECRET | {"id": "other", "repository": str(tmp_path)}
    assert eve.post("/v1/sessions", json=wanted | more).status_code == 403
    assert owner.get("/v1/sessions/secret").json() == secret
    assert eve.post("/v1/sessions", json=wanted).status_code == 201


def test_a_prefix_tells_nothing_of_hidden_sessions(
    service: Service, owner: httpx.Client, secret: dict[str, Any]
) -> None:
    eve = service.client("eve", "operator", scopes=("queue:a",))
    for id in ("secretZZ", "otherZZ"):
        assert eve.post("/v1/sessions", json=SECRET | {"id": id, "queue": "a", "key": None}).status_code == 201
    for prefix in ("secre", "other"):  # one is unique, the other one is not
        assert eve.get(f"/v1/sessions/{prefix}").status_code == 404
        assert eve.get("/v1/effects", params={"session": prefix}).status_code == 404
    uid = eve.get("/v1/sessions/otherZZ").json()["uid"]
    assert eve.get(f"/v1/sessions/{uid}").json()["id"] == "otherZZ"
    assert eve.get("/v1/sessions/secret").status_code == 404
    assert owner.get("/v1/sessions/other").json()["id"] == "otherZZ"
    assert owner.get("/v1/sessions/secre").json()["code"] == "conflict"


def test_effects_and_approvals_are_named_by_whole_ids(service: Service, owner: httpx.Client) -> None:
    eve = service.client("eve", "operator", scopes=("queue:a",))
    owner.post("/v1/sessions", json={"program": "service_release", "arguments": {"page": "p"}, "id": "r", "queue": "a"})
    service.run("r")
    for kind in ("effects", "approvals"):
        (found,) = eve.get(f"/v1/{kind}").json()["items"]
        assert eve.get(f"/v1/{kind}/{found['id']}").status_code == 200
        assert eve.get(f"/v1/{kind}/{found['id'][:-2]}").status_code == 404
        assert owner.get(f"/v1/{kind}/{found['id'][:-2]}").status_code == 200
