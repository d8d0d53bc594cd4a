"""An exemption for a repository: who may grant it is decided by the repository that it is for."""

from __future__ import annotations

import subprocess
from pathlib import Path

import httpx
import pytest

from perdure.domain.identity import Identity, acting
from perdure.store.moves import policy, session
from perdure.store.moves.session import NewSession
from perdure.store.store import Store
from tests.server.support.service import OWNER, Service

pytestmark = pytest.mark.databases("sqlite", "postgres")
ASKED = {"rule": "push", "because": "release day"}


def test_a_relative_folder_is_authorized_as_its_repository(
    service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    for words in (["init", "-q"], ["remote", "add", "origin", "https://git.example.org/other/project.git"]):
        subprocess.run(["git", "-C", str(folder), *words], check=True)
    monkeypatch.chdir(tmp_path)
    eve = service.client("eve", "approver", scopes=("repository:mine*",))
    assert eve.post("/v1/exemptions", json=ASKED | {"repository": "mine"}).status_code == 403
    granted = eve.post("/v1/exemptions", json=ASKED | {"repository": "mine.example.org/app"})
    assert (granted.status_code, granted.json()["repository"]) == (201, "mine.example.org/app")


def test_a_name_that_is_no_possible_path_is_no_fault(owner: httpx.Client) -> None:
    for name in ("x" * 5000, "x\0y"):
        assert owner.post("/v1/exemptions", json=ASKED | {"repository": name}).status_code < 500


@pytest.mark.parametrize("strict", ["answer = 'deny'", "answer = 'ask'\n[rule.gate]\nname = 'release'\nquorum = 2"])
def test_only_an_owner_who_did_not_request_lifts_a_strict_rule(
    service: Service, store: Store, owner: httpx.Client, strict: str
) -> None:
    text = f"default = 'allow'\n\n[[rule]]\nname = 'push'\nreason = 'Never.'\ntool = 'push'\n{strict}\n"
    with acting(Identity("token", OWNER)):
        store.write_now(policy.activate(text, by=OWNER, because="a test"))
        store.write_now(session.create(NewSession(id="s", program="p", arguments={}), by=OWNER))
    otto, grace = service.client("otto", "owner"), service.client("grace", "approver")
    asked = ASKED | {"session": "s"}
    refused = [one.post("/v1/exemptions", json=asked).status_code for one in (owner, grace)]
    granted = otto.post("/v1/exemptions", json=asked)
    assert (refused, granted.status_code) == ([409, 409], 201), granted.text
    assert owner.post("/v1/exemptions", json=ASKED | {"tool": "push"}).status_code == 201


def test_a_read_knows_who_makes_it(store: Store) -> None:
    with acting(Identity("token", OWNER)):
        assert store.read_now(lambda tx: tx.identity) == f"token:{OWNER}"
    assert store.read_now(lambda tx: tx.identity) == store.identity
