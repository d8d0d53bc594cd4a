"""A session whose folder is missing, or that is ordered to change another one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from perdure.agent.files.snapshot import Snapshots
from tests.agent.conftest import open_runtime
from tests.agent.support.conversation import Conversation, calls

pytestmark = pytest.mark.databases("sqlite", "postgres")


@pytest.mark.databases("memory")
async def test_a_branch_waits_for_a_worker_with_a_snapshot_folder(conversation: Conversation, tmp_path: Path) -> None:
    conversation.declare(["Hello.", "Yes."])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime, repository=tmp_path)
        branch = await runtime.fork("talk")
        await runtime.send(branch.id, "continue")
        view = await runtime.run(branch.id)
        assert view.status != "failed"


@pytest.mark.databases("memory")
async def test_a_failed_snapshot_does_not_fail_the_session(conversation: Conversation, tmp_path: Path) -> None:
    (work := tmp_path / "work").mkdir()
    (kept := tmp_path / "kept").mkdir()
    (kept / "snapshots").write_text("a file where the folder of snapshots should be")
    conversation.declare([calls(("write_file", {"path": "a.txt", "content": "x"})), "End."], ["write_file"])
    async with open_runtime(conversation.target, artifacts=kept) as runtime:
        session = await conversation.start(runtime, repository=work)
        assert session.status == "waiting", session.error


@pytest.mark.databases("memory")
async def test_a_missing_folder_is_reported_and_does_not_fail_the_session(
    conversation: Conversation, tmp_path: Path
) -> None:
    (work := tmp_path / "work").mkdir()
    (work / "a.txt").write_text("x")
    read = calls(("read_file", {"path": "a.txt"}))
    conversation.declare([read, "Read.", read, "End."], ["read_file", "run_command"])
    async with open_runtime(conversation.target, artifacts=tmp_path / "kept") as runtime:
        await conversation.start(runtime, repository=work)
        shutil.rmtree(work)
        await runtime.send("talk", "continue")
        session = await runtime.run("talk")
        assert session.status == "waiting", session.error


@pytest.mark.databases("memory")
async def test_a_command_in_a_missing_folder_does_not_fail_the_session(
    conversation: Conversation, tmp_path: Path
) -> None:
    (work := tmp_path / "work").mkdir()
    run = calls(("run_command", {"command": "echo x > a.txt"}), ("write_file", {"path": "b.txt", "content": "x"}))
    conversation.declare(["Hello.", run, "End."], ["write_file", "run_command"], unsandboxed=True)
    async with open_runtime(conversation.target, artifacts=tmp_path / "kept") as runtime:
        await conversation.start(runtime, repository=work)
        shutil.rmtree(work)
        await runtime.send("talk", "continue")
        session = await runtime.run("talk")
        assert session.status == "waiting", session.error


@pytest.mark.databases("memory")
async def test_a_message_cannot_order_a_merge_into_a_foreign_folder(conversation: Conversation, tmp_path: Path) -> None:
    home, victim, evil = tmp_path / "home", tmp_path / "victim", tmp_path / "evil"
    for one in (victim, evil):
        one.mkdir()
    (victim / "a.txt").write_text("mine\n")
    base = Snapshots(victim, home).take("base").commit
    (victim / "a.txt").write_text("evil\n")
    theirs = Snapshots(victim, home).take("theirs").commit
    (victim / "a.txt").write_text("mine\n")
    conversation.declare(["Hello."])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)  # it has no folder at all
        given = {"folder": str(victim), "home": str(home), "base": base, "ours": base, "theirs": theirs}
        await runtime.send("talk", {"perform": {"tool": "merge_branch", "arguments": given}}, by="mallory")
        await runtime.run("talk")
    assert (victim / "a.txt").read_text() == "mine\n"
