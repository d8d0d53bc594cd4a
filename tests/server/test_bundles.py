"""Bundles that were cut off or changed on their way to a service."""

from __future__ import annotations

import io
import json
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from perdure.store.move import StoreTransaction, plain_move
from perdure.store.moves import session as sessions
from perdure.store.store import Store
from perdure.testing.proxy import wait_until
from tests.seed import sample
from tests.server.support.service import Service

KEY = {"Idempotency-Key": "key-1"}
MANIFEST = "manifest.json"
PLACES = 12  # where a bundle is torn, and of which files a byte is changed


@pytest.fixture
def bundle(service: Service, owner: httpx.Client) -> bytes:
    owner.post("/v1/sessions", json={"program": "service_question", "arguments": {"text": "?"}, "id": "question"})
    assert service.run("question") == "waiting"
    return owner.post("/v1/sessions/question/export", json={}).content


def send(owner: httpx.Client, bundle: bytes, id: str) -> httpx.Response:
    return owner.post("/v1/import", params={"id": id}, content=bundle, headers={"Content-Type": "application/zip"})


def changed(bundle: bytes, **files: bytes) -> bytes:
    """The bundle with other contents, in a correct archive."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(bundle)) as whole, zipfile.ZipFile(made, "w") as other:
        for name in whole.namelist():
            other.writestr(name, files.get(name, whole.read(name)))
    return made.getvalue()


def read(bundle: bytes, name: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(bundle)) as whole:
        return whole.read(name)


@pytest.mark.databases("sqlite", "postgres")
def test_every_torn_bundle_is_refused(owner: httpx.Client, bundle: bytes) -> None:
    for end in [0, len(bundle) - 1, *sample(range(1, len(bundle) - 1), PLACES)]:
        assert (end, send(owner, bundle[:end], "torn").status_code) == (end, 422)
    assert owner.get("/v1/sessions/torn").status_code == 404


@pytest.mark.databases("sqlite", "postgres")
def test_a_changed_byte_of_any_file_is_refused(owner: httpx.Client, bundle: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(bundle)) as whole:
        names = [one for one in whole.namelist() if one != MANIFEST and whole.read(one)]
    for name in names:
        content = bytearray(read(bundle, name))
        content[sample(range(len(content)), 1)[0]] ^= 1
        assert (name, send(owner, changed(bundle, **{name: bytes(content)}), "z").status_code) == (name, 422)
    assert owner.get("/v1/sessions/z").status_code == 404


@pytest.mark.databases("sqlite", "postgres")
def test_another_copy_is_another_session_and_takes_no_id(owner: httpx.Client, bundle: bytes) -> None:
    """Nothing proves the uid of the copy. With another one it is another copy, for which an id may be taken already."""
    manifest = json.loads(read(bundle, MANIFEST))
    manifest["copy"] = manifest["copy"][:-1] + ("0" if manifest["copy"][-1] != "0" else "1")
    other = changed(bundle, **{MANIFEST: json.dumps(manifest).encode()})
    first = send(owner, bundle, "z")
    assert (first.status_code, send(owner, bundle, "z").json()["changed"]) == (201, False)
    taken = send(owner, other, "z")
    assert (taken.status_code, taken.json()["code"]) == (409, "conflict")
    assert send(owner, other, "y").status_code == 201
    assert owner.get("/v1/sessions/z").json()["uid"] == first.json()["session"]["uid"]


@pytest.mark.databases("sqlite")
def test_an_export_takes_as_long_as_it_needs(store: Store) -> None:
    """The session may be sealed already when the time of other requests is over."""
    service = Service(store, patience=1)
    go_on, is_held = threading.Event(), threading.Event()

    @plain_move
    def hold(_tx: StoreTransaction) -> None:
        is_held.set()
        assert go_on.wait(60)

    try:
        owner, other = service.client("olga"), service.client("ada", "operator")
        body = {"program": "service_question", "arguments": {"text": "?"}, "id": "question"}
        uid = owner.post("/v1/sessions", json=body).json()["uid"]
        with ThreadPoolExecutor(2) as pool:
            held = pool.submit(store.write_now, hold())
            assert is_held.wait(60)
            export = pool.submit(owner.post, "/v1/sessions/question/export", json={"move": True}, headers=KEY)
            in_flight = service.app.state.idempotency.in_flight
            wait_until(lambda: bool(in_flight), "the export waits for the store")
            late = other.post("/v1/sessions/question/rename", json={"title": "x"})
            assert (late.status_code, "longer than 1 seconds" in late.json()["detail"]) == (503, True)
            assert not export.done()
            go_on.set()
            held.result()
            assert (export.result().status_code, MANIFEST in read_names(export.result().content)) == (200, True)
        assert store.read_now(sessions.get, uid).sealed_at is not None
    finally:
        go_on.set()
        service.close()


def read_names(bundle: bytes) -> list[str]:
    with zipfile.ZipFile(io.BytesIO(bundle)) as whole:
        return whole.namelist()
