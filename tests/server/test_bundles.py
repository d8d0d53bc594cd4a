"""Bundles that were cut off or changed on their way to a service."""

from __future__ import annotations

import io
import json
import threading
import zipfile
from concurrent.futures import Future, ThreadPoolExecutor

import httpx
import pytest

from perdure.store.move import StoreTransaction, plain_move
from perdure.store.moves import session as sessions
from perdure.store.store import Store
from perdure.testing.proxy import wait_until
from tests.seed import sample
from tests.server.support.service import PATIENCE, Service

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
def test_an_export_takes_as_long_as_it_needs(service: Service, owner: httpx.Client, store: Store) -> None:
    """The session may be sealed already when the time of other requests is over."""
    body = {"program": "service_question", "arguments": {"text": "?"}, "id": "question"}
    uid = owner.post("/v1/sessions", json=body).json()["uid"]
    impatient = Service(store, is_first=False, patience=1)
    go_on, is_held = threading.Event(), threading.Event()
    exports: list[Future[httpx.Response]] = []

    @plain_move
    def hold(_tx: StoreTransaction) -> None:
        is_held.set()
        assert go_on.wait(PATIENCE)

    try:
        owner, other = impatient.client("olga"), impatient.client("ada", "operator")
        in_flight = impatient.app.state.idempotency.in_flight

        def is_under_way() -> bool:
            """Whether an export is carried out; it is sent again if it was not admitted within a second."""
            if not exports or exports[-1].done():
                path = "/v1/sessions/question/export"
                exports.append(pool.submit(owner.post, path, json={"move": True}, headers=KEY))
            return bool(in_flight)

        with ThreadPoolExecutor(2) as pool:
            held = pool.submit(store.write_now, hold())
            assert is_held.wait(PATIENCE)
            wait_until(is_under_way, "the export waits for the store")
            late = other.post("/v1/sessions/question/rename", json={"title": "x"})
            assert (late.status_code, "longer than 1 seconds" in late.json()["detail"]) == (503, True)
            assert not exports[-1].done()
            go_on.set()
            held.result()
            export = exports[-1].result()
            assert (export.status_code, MANIFEST in read_names(export.content)) == (200, True)
        assert store.read_now(sessions.get, uid).sealed_at is not None
    finally:
        go_on.set()
        impatient.close()


def read_names(bundle: bytes) -> list[str]:
    with zipfile.ZipFile(io.BytesIO(bundle)) as whole:
        return whole.namelist()
