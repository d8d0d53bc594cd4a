"""Reads over the service are logged under the identity of the token, before anything is answered."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from perdure.domain.identity import Identity, acting
from perdure.server.operation import EVENT_STREAM, Operation
from perdure.store.move import StoreTransaction
from perdure.store.moves import policy
from perdure.store.store import Store
from tests.runtime.test_access_log import EVERYTHING
from tests.server.support.service import OWNER, Service
from tests.server.support.world import World, operations
from tests.store.support.sessions import connection_of, raw

pytestmark = [pytest.mark.databases("sqlite", "postgres"), pytest.mark.slow]
CONTENT = {"Event", "Effect", "Vote", "SessionState"}  # records that says what was said, called, approved or read
DIGESTS = ("audit.head",)  # a file without content
NOTHING_TO_READ = {"sessions.diff": "artifact"}  # the session of the test has no snapshots; the read is logged first


def has_content(one: Operation) -> bool:
    """Whether an operation answers with a transcript, an approval, an artifact or an export."""
    if one.name.endswith(".export"):
        return True
    if one.method != "GET":
        return False  # who acts is in the log of the session
    if one.answer is None:
        return one.name not in DIGESTS
    _, parts = msgspec.json.schema_components([one.answer], ref_template="{name}")
    return bool(CONTENT & set(parts))


def test_each_operation_that_shows_content_is_logged(service: Service) -> None:
    world, token = World(service), service.token("rita", "owner")
    reader, identity = service.with_token(token.token), f"token:{token.view.id}"
    log_everything(service.store)
    found: dict[str, list[tuple[str, str]]] = {}
    for one in (each for each in operations() if has_content(each) or each.name in NOTHING_TO_READ):
        before = rows(service.store)
        asked = world.request(one)
        if one.media == EVENT_STREAM:
            with reader.stream(asked.method, asked.path) as answer:
                assert answer.status_code == 200
        else:
            assert asked.send(reader).status_code == (404 if one.name in NOTHING_TO_READ else 200)
        found[one.name] = list((rows(service.store) - before).elements())
    assert found == {
        name: [(identity, action)]
        for name, action in {
            "approvals.get": "approval",
            "work.artifact": "artifact",
            "artifacts.get": "artifact",
            "effects.get": "transcript",
            "effects.list": "transcript",
            "events.list": "transcript",
            "events.live": "transcript",
            "sessions.brief": "transcript",
            "sessions.export": "export",
            "sessions.state": "transcript",
            **NOTHING_TO_READ,
        }.items()
    }


def test_a_stream_is_logged_once_and_not_answered_without(service: Service) -> None:
    World(service)
    store, token = service.store, service.token("rita", "owner")
    reader, identity = service.with_token(token.token), f"token:{token.view.id}"
    log_everything(store)
    with reader.stream("GET", "/v1/sessions/inbox/events", headers={"Accept": EVENT_STREAM}) as answer:
        assert "id: 3" in answer.iter_lines()
        assert rows(store) == {(identity, "transcript"): 1}
    raw(store, "alter table access rename to lost")
    try:
        for path in ("events", "live", "state", "brief"):
            assert reader.get(f"/v1/sessions/inbox/{path}").status_code >= 500, path
    finally:
        raw(store, "alter table lost rename to access")


def log_everything(store: Store) -> None:
    with acting(Identity("token", OWNER)):
        store.write_now(policy.activate(EVERYTHING, by=OWNER, because="asked for"))


def rows(store: Store) -> Counter[tuple[str, str]]:
    def read(tx: StoreTransaction) -> Counter[tuple[str, str]]:
        return Counter(connection_of(tx).execute("select identity, action from access"))

    return store.read_now(read)
