"""Who owns an imported session, and what its repository demands, is decided here and not by its bundle."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.control.session_files import import_session
from perdure.domain.exemption import ExemptionScope
from perdure.errors import ConfigError, IllegalMove
from perdure.interchange.import_ import open_checked
from perdure.runtime.policy import repository_policy
from perdure.runtime.policy.repository_policy import read_committed, recorded
from perdure.store.moves import event, exemption
from perdure.store.moves import session as sessions
from tests.agent.conftest import open_runtime
from tests.agent.files.test_branch import own, repository
from tests.agent.files.transfer.test_session_files import exported, worked
from tests.agent.support.conversation import Conversation
from tests.agent.support.git_repository import git
from tests.runtime.policy.test_store_policy import ASK, DENY
from tests.runtime.support.people import as_person, register

__all__ = ["repository"]
pytestmark = [pytest.mark.slow, pytest.mark.databases("sqlite", "postgres")]


def commit_policy(folder: Path, text: str) -> None:
    (folder / ".perdure").mkdir(exist_ok=True)
    (folder / ".perdure" / "policy.toml").write_text(text)
    git(folder, "add", "-f", ".perdure")
    git(folder, "commit", "-q", "-m", "a policy")


async def take(runtime: perdure.Runtime, path: Path, person: str = "grace", **options: Any) -> perdure.SessionView:
    with as_person(person), open_checked(path) as bundle:
        made = await import_session(runtime, bundle, by=person, **options)
    return await runtime.get(made.imported.session.uid)


@pytest.mark.parametrize("move", [False, True])
async def test_an_import_is_under_the_policy_of_its_folder_too(
    conversation: Conversation, repository: Path, tmp_path: Path, move: bool
) -> None:
    commit_policy(repository, DENY)
    async with open_runtime(str(tmp_path / "first" / "store.db"), **own(tmp_path)) as runtime:
        await worked(conversation, runtime, repository)
        path = await exported(runtime, tmp_path / "talk.zip", move=move)
    there = tmp_path / "there"
    subprocess.run(["git", "clone", "-q", str(repository), str(there)], check=True)
    git(there, "remote", "set-url", "origin", "https://example.org/shop.git")
    git(there, "config", "user.email", "a@b")
    git(there, "config", "user.name", "a")
    commit_policy(there, ASK)
    async with open_runtime(conversation.target, **own(tmp_path / "other")) as runtime:
        view = await take(runtime, path, into=there)
        found = runtime.store.read_now(recorded, runtime.store.read_now(sessions.get, view.uid))
        assert {one.text for one in found} == {ASK, DENY}
        assert (view.repository_id, view.owner) == ("example.org/shop", "grace")
        scope = ExemptionScope(session_uid=view.uid, repository=view.repository_id, tool="act")
        await runtime.grant_exemption("default", because="a test", repository="example.org/shop")
        assert runtime.store.read_now(exemption.covering, ["default"], scope, "")
        runtime.store.read_now(event.verify, view.uid)
        assert (await runtime.state_at("talk")).session["repository_id"] == "example.org/shop"


async def test_only_an_owner_keeps_the_owner_of_a_bundle(
    conversation: Conversation, repository: Path, tmp_path: Path
) -> None:
    async with open_runtime(str(tmp_path / "first" / "store.db"), **own(tmp_path)) as runtime:
        await worked(conversation, runtime, repository)
        path = await exported(runtime, tmp_path / "talk.zip")
        theirs = (await runtime.get("talk")).owner
    async with open_runtime(conversation.target, **own(tmp_path / "other")) as runtime:
        register(runtime.store, "grace")
        with pytest.raises(IllegalMove, match="Only an owner of the store"):
            await take(runtime, path, keep_owner=True)
        assert (await take(runtime, path)).owner == "grace" != theirs
        second = await runtime_copy(tmp_path, conversation, repository)
        assert (await take(runtime, second, "olga", keep_owner=True, id="second")).owner == theirs


async def runtime_copy(tmp_path: Path, conversation: Conversation, repository: Path) -> Path:
    """Another bundle of the same session: a copy with a uid of its own."""
    async with open_runtime(str(tmp_path / "first" / "store.db"), **own(tmp_path)) as runtime:
        return await exported(runtime, tmp_path / "second.zip")


def test_a_repository_that_git_cannot_read_starts_no_session(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_policy(repository, DENY)
    (repository / ".perdure" / "policy.toml").unlink()
    assert read_committed(repository) is not None
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigError, match="git failed"):
        read_committed(repository)


async def test_a_lineage_that_is_too_long_loosens_nothing(
    conversation: Conversation, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_policy(repository, DENY)
    monkeypatch.setattr(repository_policy, "DEEPEST", 2)
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await worked(conversation, runtime, repository)
        views = [await runtime.get("talk")]
        for name in ("fork-1", "fork-2"):
            views.append(await runtime.fork(views[-1].id, id=name))
        texts = []
        for one in views:
            found = runtime.store.read_now(recorded, runtime.store.read_now(sessions.get, one.uid))
            texts.append([document.text for document in found])
        assert texts == [[DENY], [DENY], [repository_policy.UNREADABLE]]
