"""Merges of branches that have ended, and the record of a merge in the parent session."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import perdure
from perdure.agent.files import worktree
from perdure.control.branches.files import diff
from perdure.control.branches.merge import merge
from perdure.control.branches.rewind import rewind
from perdure.errors import Conflict
from tests.agent.conftest import open_runtime
from tests.agent.files.test_branch import branched, home, own, place_of, read, repository, write
from tests.agent.support.conversation import Conversation, calls, lines

__all__ = ["repository"]
pytestmark = pytest.mark.databases("sqlite", "postgres")


async def ended(runtime: perdure.Runtime, name: str) -> str:
    await runtime.cancel(name)
    assert (await runtime.run(name)).status == "cancelled"
    return name


@pytest.mark.slow
async def test_an_ended_branch_is_merged_by_a_separate_session(
    conversation: Conversation, repository: Path, tmp_path: Path
) -> None:
    conversation.declare(["Hello.", calls(write("b.txt", "b\n")), "One."], ["write_file"])
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await conversation.start(runtime, repository=repository)
        branch = await ended(runtime, await branched(runtime))
        made = await merge(runtime, branch)
        assert (made.merged.written, (repository / "b.txt").read_text()) == (["b.txt"], "b\n")
        assert (await runtime.get(f"{branch}.merge-1")).status == "done"
        (repository / "b.txt").unlink()  # he did not like it
        assert (await merge(runtime, branch)).merged.written == []
        await runtime.remove(f"{branch}.merge-1", because="tidy")
        await merge(runtime, branch)
        assert (await runtime.get(f"{branch}.merge-3")).status == "done"


@pytest.mark.slow
async def test_an_ended_branch_of_an_ended_session_is_merged(
    conversation: Conversation, repository: Path, tmp_path: Path
) -> None:
    agent = conversation.declare([calls(write("b.txt", "b\n")), "One."], ["write_file"])
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await runtime.start(agent.bind("do it", once=True), id="talk", repository=repository)
        assert (await runtime.run("talk")).status == "done"
        first, *_ = [one.number async for one in runtime.events("talk") if one.kind == "message"]
        branch = await runtime.fork("talk", at=first)
        assert (await runtime.run(branch.id)).status == "done"
        (repository / "b.txt").unlink()
        assert (await merge(runtime, branch.id)).merged.written == ["b.txt"]


@pytest.mark.slow
async def test_an_ended_branch_without_a_folder_is_merged_from_its_last_snapshot(
    conversation: Conversation, repository: Path, tmp_path: Path
) -> None:
    conversation.declare(["Hello.", calls(write("b.txt", "b\n")), "One."], ["write_file"])
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await conversation.start(runtime, repository=repository)
        branch = await ended(runtime, await branched(runtime))
        worktree.remove(await home(runtime, repository), (await runtime.get(branch)).uid)
        assert (await merge(runtime, branch)).merged.written == ["b.txt"]


@pytest.mark.slow
async def test_conflicts_of_an_ended_branch_need_a_person_and_a_second_merge(
    conversation: Conversation, repository: Path, tmp_path: Path
) -> None:
    conversation.declare([calls(read("a.txt")), "Hello.", calls(write("a.txt", "theirs\n")), "One."],
                 ["read_file", "write_file"])  # fmt: skip
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await conversation.start(runtime, repository=repository)
        branch = await ended(runtime, await branched(runtime))
        (repository / "a.txt").write_text("ours\n")
        assert (await merge(runtime, branch)).merged.conflicts == ["a.txt (contents)"]
        (repository / "a.txt").write_text("one\n")
        assert (await merge(runtime, branch)).merged.written == ["a.txt"]


@pytest.mark.slow
@pytest.mark.parametrize("lives", [True, False])
async def test_a_merge_is_recorded_in_the_parent_session(
    conversation: Conversation, repository: Path, tmp_path: Path, lives: bool
) -> None:
    conversation.declare(["Hello.", calls(write("b.txt", "b\n")), "One.", "I know."], ["write_file"])
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await conversation.start(runtime, repository=repository)
        branch = await branched(runtime)
        if not lives:
            await ended(runtime, branch)
        await merge(runtime, branch)
        assert "b.txt" in (await diff(runtime, "talk")).text
        view = await runtime.get("talk")
        assert view.status == "waiting"  # the merge did not wake it
        (repository / "b.txt").unlink()
        back = await rewind(runtime, "talk", to=view.cursor)
        assert (Path(back.folder or "") / "b.txt").read_text() == "b\n"
        await merge(runtime, branch)
        told = [one for one in await lines(runtime) if "merged branch" in str(one["content"])]
        assert len(told) == 1  # the second merge brought nothing
        await runtime.send("talk", "continue")
        await runtime.run("talk")
        assert [turn.text for turn in conversation.turns_shown() if "merged branch" in turn.text]


@pytest.mark.slow
async def test_a_merge_order_cannot_name_a_folder(conversation: Conversation, repository: Path, tmp_path: Path) -> None:
    conversation.declare(["Hello.", calls(write("b.txt", "b\n")), "One."], ["write_file"])
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await conversation.start(runtime, repository=repository)
        branch = await branched(runtime)
        await runtime.send(branch, {"perform": {"tool": "merge_branch", "arguments": {"folder": str(tmp_path)}}})
        await runtime.run(branch)
        said = [one for one in await lines(runtime, branch) if one.get("about") == "performed" and "of" in one]
        assert [one["status"] for one in said] == ["not started"]
        assert not (repository / "b.txt").exists()


@pytest.mark.slow
async def test_an_ended_branch_whose_snapshots_are_gone_is_refused(
    conversation: Conversation, repository: Path, tmp_path: Path
) -> None:
    conversation.declare(["Hello.", calls(write("b.txt", "b\n")), "One."], ["write_file"])
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await conversation.start(runtime, repository=repository)
        branch = await ended(runtime, await branched(runtime))
        assert (await place_of(runtime, branch)).is_dir()
        shutil.rmtree(await home(runtime, repository))
        with pytest.raises(Conflict, match="does not exist"):
            await merge(runtime, branch)
        assert not (repository / "b.txt").exists()
