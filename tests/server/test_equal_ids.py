"""An id that several sessions have names an object together with its session."""

from __future__ import annotations

import asyncio

import httpx
import pytest

import perdure
from perdure.domain.approval import Approval
from perdure.domain.effect import Effect
from perdure.domain.wait import Wait
from tests.server.support.equal_ids import (
    DONE,
    DOUBT,
    QUESTION,
    TO_APPROVE,
    TO_DENY,
    TO_WITHDRAW,
    approval_of,
    make_equal_ids,
)
from tests.server.support.service import Service

pytestmark = pytest.mark.databases("sqlite", "postgres")
CHANGES = [
    (f"/v1/approvals/{approval_of(TO_APPROVE)}/approve", {}),
    (f"/v1/approvals/{approval_of(TO_DENY)}/deny", {}),
    (f"/v1/approvals/{approval_of(TO_WITHDRAW)}/withdraw", {"because": "x"}),
    (f"/v1/waits/{QUESTION}/answer", {"answer": "yes"}),
    (f"/v1/effects/{DOUBT}/settle", {"verdict": "abandon", "because": "x"}),
    (f"/v1/effects/{DONE}/undo", {"because": "x"}),
]


def test_session_of_the_query_names_which_object_is_changed(service: Service, owner: httpx.Client) -> None:
    make_equal_ids(service.store, "first", "second")
    second = owner.get("/v1/sessions/second").json()["uid"]
    before = owner.get("/v1/sessions/first").json()["cursor"]
    for path, body in CHANGES:
        refused = owner.post(path, json=body)
        assert (path, refused.status_code, refused.json()["hint"]) == (path, 409, "Name its session.")
        done = owner.post(path, json=body, params={"session": "second"})
        assert (path, done.status_code, done.json().get("session_uid")) == (path, 200, second)
    assert owner.get("/v1/sessions/first").json()["cursor"] == before


async def test_verbs_take_the_session_of_an_id(service: Service) -> None:
    make_equal_ids(service.store, "first", "second")
    token = (await asyncio.to_thread(service.token, "olga")).token
    async with perdure.connect(service.address, token) as rt:
        uid = (await rt.get("second")).uid
        found: list[Approval | Effect | Wait] = [
            await rt.approve(approval_of(TO_APPROVE), session="second", by="ada"),
            await rt.deny(approval_of(TO_DENY), session="second", by="ada"),
            await rt.withdraw(approval_of(TO_WITHDRAW), session="second", by="ada", because="x"),
            await rt.answer(QUESTION, "yes", session="second"),
            await rt.settle(DOUBT, "abandon", session="second", by="ada", because="x"),
            await rt.ask_undo(DONE, session="second", by="ada", because="x"),
        ]
    assert [one.session_uid for one in found] == [uid] * len(found)
