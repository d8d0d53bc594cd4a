"""Every operation of the document: it is called, and refused to whom it must be refused."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from perdure.console.page import ConsolePage
from perdure.console.table import TABLE as PAGES
from perdure.domain.caller import RIGHTS, Verb
from perdure.domain.principal import Role
from perdure.ids import digest
from perdure.server.operation import EVENT_STREAM, JSON, Operation, Touch
from perdure.server.operations import TABLE
from perdure.store.store import Store
from tests.server.support.service import Service
from tests.server.support.world import World, operations

pytestmark = [pytest.mark.databases("sqlite", "postgres"), pytest.mark.slow]
DESTRUCTIVE = ("remove", "revoke", "cancel", "close", "thaw", "archive")  # called last


def in_order() -> list[Operation]:
    rank = {"self.revoke": 2}  # after it, the caller may do nothing
    return sorted(operations(), key=lambda one: rank.get(one.name, any(word in one.name for word in DESTRUCTIVE)))


def call(client: httpx.Client, world: World, one: Operation) -> int:
    """The status of a request; a stream is left at once."""
    asked = world.request(one)
    if one.media == EVENT_STREAM:
        with client.stream(asked.method, asked.path) as answer:
            return answer.status_code
    return asked.send(client).status_code


def test_every_operation_is_called_and_answers_as_documented(service: Service, owner: httpx.Client) -> None:
    world, document = World(service), owner.get("/openapi.json").json()
    found: dict[str, int] = {}
    for one in in_order():
        documented = document["paths"][re.sub(r":[a-z]+}", "}", one.path)][one.method.lower()]
        found[one.name] = status = call(owner, world, one)
        assert str(status) in documented["responses"], (one.name, status)
    refused = {name: status for name, status in found.items() if status >= 300}
    assert refused == {
        "sessions.rewind": 422,  # it is no agent
        "sessions.diff": 404,
        "sessions.model": 422,
        "sessions.close": 409,
        "sessions.retry": 409,  # it has not failed
        "sessions.remove": 409,  # it has not ended
        "sessions.removal": 409,
        "effects.undo": 422,  # its tool has no undo
        "approvals.deny": 409,  # it was approved
        "tasks.change": 409,  # a program changes its tasks itself
    }


FORGED = "prd_0123456789_" + "A" * 43


def test_every_operation_is_refused_to_whom_it_must_be(store: Store) -> None:
    service = Service(store, failures_per_minute=1_000_000)
    try:
        _check_refusals(service, store)
    finally:
        service.close()


def _check_refusals(service: Service, store: Store) -> None:
    world = World(service)
    expired = service.token("zoe", "owner", expires="1s")
    revoked = service.token("zoe", "owner")
    service.client("olga").post(f"/v1/tokens/{revoked.view.id}/revoke")
    store.clock.advance(seconds=2)  # type: ignore[attr-defined]
    unknown = {
        "no token": service.with_token(None), "forged": service.with_token(FORGED),
        "nonsense": service.with_token("x"), "expired": service.with_token(expired.token),
        "revoked": service.with_token(revoked.token),
    }  # fmt: skip
    scopes = ("queue:elsewhere", "repository:elsewhere")
    elsewhere = service.client("eve", "owner", scopes=scopes)
    nothing = service.client("ned", "owner", scopes=())
    roles = {role: service.client(f"some-{role}", role) for role in ("operator", "approver", "auditor", "worker")}
    wrong: dict[tuple[str, str], int] = {}
    for one in TABLE:
        for name, client in unknown.items():
            if (status := call(client, world, one)) != 401:
                wrong[one.name, name] = status
        for role, client in roles.items():
            if one.verb not in RIGHTS[Role(role)] and (status := call(client, world, one)) != 403:
                wrong[one.name, role] = status
        if one.verb is not Verb.READ_SELF and (status := call(nothing, world, one)) != 403:
            wrong[one.name, "no scope"] = status
        client = service.client("eve", scopes=scopes) if one.verb is Verb.CHANGE_SELF else elsewhere
        if (other := _elsewhere(client, world, one)) is not None:
            wrong[one.name, "another's object"] = other
    assert wrong == {}


def _elsewhere(client: httpx.Client, world: World, one: Operation) -> int | None:
    """The status of a request for what is in another scope, if that is not a refusal."""
    status = call(client, world, one)
    match one.touches:
        case Touch.SELF:
            return None if status in (200, 201) else status
        case Touch.STORE:
            return None if status == 403 else status
        case Touch.PLACE:
            return None if status in (403, 404) else status
        case Touch.LISTING:
            if status == 404:
                return None
            items = [] if status != 200 else world.request(one).send(client).json()["items"]
            return None if (status, items) == (200, []) else status
        case _:
            return None if status == 404 else status


def _metrics(client: httpx.Client) -> int:
    return client.get("/metrics").status_code


@pytest.mark.databases("sqlite")
def test_metrics_are_for_who_may_read_them(service: Service, owner: httpx.Client) -> None:
    roles = {role: service.client(f"some-{role}", role) for role in ("operator", "approver", "auditor", "worker")}
    elsewhere = service.client("eve", "owner", scopes=("queue:elsewhere",))
    nothing = service.client("ned", "owner", scopes=())
    assert {name: _metrics(client) for name, client in roles.items()} == {
        "operator": 200, "approver": 403, "auditor": 200, "worker": 403,
    }  # fmt: skip
    assert [_metrics(one) for one in (owner, elsewhere, nothing)] == [200, 403, 403]
    assert [_metrics(service.with_token(one)) for one in (None, FORGED, "x")] == [401, 401, 401]


@pytest.mark.databases("sqlite")
def test_every_operation_is_open_to_a_role_that_may(store: Store) -> None:
    service = Service(store)
    try:
        world = World(service)
        roles = {role: service.client(f"some-{role}", role) for role in Role}
        wrong: dict[tuple[str, str], int] = {}
        for one in in_order():
            is_gone = any(word in one.name for word in (*DESTRUCTIVE, "forget", "sessions.diff"))
            for role, client in roles.items():
                if one.verb in RIGHTS[role]:
                    status = call(client, world, one)
                    if status in (401, 403) or (status == 404 and not is_gone):
                        wrong[one.name, role] = status
        assert wrong == {}
    finally:
        service.close()


@pytest.mark.databases("sqlite")
def test_a_user_of_the_socket_who_is_not_registered_may_do_nothing(store: Store, folder: Path) -> None:
    service = Service(store, unix=folder / "sock", failures_per_minute=1_000_000)
    try:
        world, peer = World(service), service.with_token(None)
        assert {one.name: status for one in TABLE if (status := call(peer, world, one)) != 401} == {}
        assert _metrics(peer) == 401
        mine = {"name": "me", "roles": ["worker"], "logins": [f"os:{os.getuid()}"]}
        assert service.client("olga").post("/v1/principals", json=mine).status_code == 201
        assert peer.get("/v1/self").json()["name"] == "me"
        assert peer.get("/v1/sessions").status_code == 403
    finally:
        service.close()


BULK = {"do": "cancel", "key": "k", "sessions": "x 1", "digest": digest("bulk cancel k\nx 1")}


def _page(world: World, one: ConsolePage) -> str:
    if one.path == "/bulk":
        return "/bulk?do=cancel&pick=x"
    noun = next(iter(one.path.removeprefix("/live").split("/")[1:]), "")
    return re.sub(r"{([a-z]+)}", lambda _: world.names[noun if noun in world.names else "sessions"], one.path)


def _browser(service: Service, token: str | None) -> tuple[httpx.Client, dict[str, str]]:
    """A browser, signed in if it has a token, and what it sends with each form."""
    client = service.with_token(None)
    client.headers["Origin"] = service.address
    found = re.search(r'name="form_token" value="([0-9a-f]{64})"', client.get("/sign-in").text)
    assert found is not None
    form = {"form_token": found[1]}
    if token is not None:
        assert client.post("/sign-in", data=form | {"token": token}).status_code == 303
    signed = re.search(r'name="form_token" value="([0-9a-f]{64})"', client.get("/sign-in").text)
    assert signed is not None
    return client, {"form_token": signed[1], "because": "x", "verdict": "happened", "text": "x", "answer": "yes"}


@pytest.mark.databases("sqlite")
def test_every_page_of_the_console_is_refused_to_whom_it_must_be(store: Store) -> None:
    service = Service(store, console=True)
    try:
        world, wrong = World(service), dict[tuple[str, str, str], int]()
        who = {
            "stranger": _browser(service, None),
            "worker": _browser(service, service.token("will", "worker").token),
            "nothing": _browser(service, service.token("ned", "owner", scopes=()).token),
            "elsewhere": _browser(service, service.token("eve", "owner", scopes=("queue:elsewhere",)).token),
            "owner": _browser(service, service.token("olga").token),
        }
        bearer = service.client("olga")  # a token in a header is no sign-in
        for one in PAGES:
            path = _page(world, one)
            for name, (client, form) in who.items():
                given: dict[str, Any] = (
                    {"data": form | (BULK if one.path == "/bulk" else {})} if one.method == "POST" else {}
                )
                status = _status(client, one.method, path, **given)
                if not _is_right(name, one, status):
                    wrong[name, one.method, path] = status
            status = _status(bearer, one.method, path)
            if status not in (303, 401, 403):
                wrong["bearer", one.method, path] = status
        assert wrong == {}
    finally:
        service.close()


def _status(client: httpx.Client, method: str, path: str, **given: Any) -> int:
    """The status of an answer; a stream is left at once."""
    with client.stream(method, path, **given) as answer:
        return answer.status_code


def _is_right(name: str, one: ConsolePage, status: int) -> bool:
    """Whether a page is answered as it must be to a browser that is signed in as this one."""
    touches = one.operation.touches
    match name:
        case "stranger":
            return status == (303 if one.method == "GET" else 401)
        case "worker" | "nothing":
            return status == 403
        case "elsewhere":
            is_list = touches is Touch.LISTING and one.method == "GET"
            return status == 200 if is_list else status in (403, 404)
        case _:
            return status not in (401, 403) and status < 500


def test_every_operation_says_what_it_needs() -> None:
    seen: set[Any] = set()
    for one in TABLE:
        assert one.summary.endswith(".")
        assert one.name not in seen
        assert (one.method, one.path) not in seen
        seen |= {one.name, (one.method, one.path)}
        if one.method == "POST":
            assert one.again is not None, one.name
            assert one.takes != JSON or one.body is not None, one.name
            assert one.body is None or not one.body.__struct_fields__ or one.example is not None, one.name
        if one.touches is Touch.PLACE:
            assert one.place is not None, one.name
