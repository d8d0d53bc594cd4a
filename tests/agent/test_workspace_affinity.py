"""An agent with unpublished files runs in the workspace that has them, and waits visibly elsewhere."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import perdure
from perdure import Runtime, SessionWaiting, tool
from perdure.cli.text.waits import describe_waits
from perdure.store.store import open_store
from tests.agent.support.conversation import Conversation, calls

TWO = pytest.mark.databases("sqlite", "postgres")
BOUND: list[str | None] = []


@tool(replay="idempotent")
def file_change(call: perdure.Call) -> str:
    BOUND.append(call.session_id)
    return "changed"


@tool(replay="pure")
def file_look() -> str:
    return "seen"


@contextmanager
def machine(target: str, workspace: str) -> Iterator[Runtime]:
    """A process of a machine that has these files."""
    with open_store(target) as store:
        runtime = Runtime(store, by="ada")
        runtime.worker_about = {"workspaces": [workspace]}
        yield runtime
        runtime.close()


@pytest.fixture
def conversation(target: str) -> Conversation:
    made = Conversation(target)
    turns = [calls(("file_look", {})), "Seen.", calls(("file_change", {})), "Changed.", "Well.", "Fine."]
    made.declare(turns, [file_look, file_change])
    return made


async def change_files(conversation: Conversation, rt: Runtime, folder: Path) -> None:
    await conversation.start(rt, repository=folder)
    await rt.send("talk", "change it")
    view = await rt.run("talk")
    assert (view.status, view.workspace) == ("waiting", rt.worker.workspace)


@TWO
async def test_agent_is_bound_when_it_calls_a_tool_that_is_not_pure(conversation: Conversation, tmp_path: Path) -> None:
    with machine(conversation.target, "home") as rt:
        view = await conversation.start(rt, repository=tmp_path)
        assert view.workspace is None, "it has only looked"
        await rt.send("talk", "change it")
        view = await rt.run("talk")
        assert view.workspace == "home"
        [bound] = [one async for one in rt.events("talk") if one.kind == "note" and "workspace" in (one.body or {})]
        [dispatched] = [one async for one in rt.events("talk") if one.kind == "effect.dispatched"][-1:]
        assert bound.body["folder"] == str(tmp_path)
        assert bound.number < dispatched.number


@TWO
async def test_session_waits_for_the_workspace_that_has_its_files(conversation: Conversation, tmp_path: Path) -> None:
    with machine(conversation.target, "home") as home, machine(conversation.target, "away") as away:
        await change_files(conversation, home, tmp_path)
        await away.send("talk", "again")
        async with perdure.Worker(away) as worker, asyncio.timeout(60):
            await worker.idle()
            view = await away.get("talk")
            [asked] = [one for one in view.waits if one.kind == "workspace"]
            assert (view.status, asked.ref, asked.detail["folder"]) == ("waiting", "home", str(tmp_path))
            assert asked.detail["host"]
            with pytest.raises(SessionWaiting):
                await away.complete("talk")
            [first, *_] = away.store.read_now(describe_waits, view)
            assert first.what == f"a worker on host {asked.detail['host']}, which has its files in {tmp_path}"
            async with perdure.Worker(home):
                while not [one for one in (await away.get("talk")).waits if one.kind == "input"]:
                    await asyncio.sleep(0.01)
    assert conversation.turns_shown()[-1].text.endswith("again")


@TWO
async def test_machines_that_share_folders_share_a_workspace(conversation: Conversation, tmp_path: Path) -> None:
    with machine(conversation.target, "shared") as one, machine(conversation.target, "shared") as other:
        await change_files(conversation, one, tmp_path)
        await other.send("talk", "again")
        assert [asked.kind for asked in (await other.run("talk")).waits] == ["input"]


@TWO
async def test_branch_belongs_to_the_workspace_of_its_origin(conversation: Conversation, tmp_path: Path) -> None:
    with machine(conversation.target, "home") as rt:
        await change_files(conversation, rt, tmp_path)
        assert (await rt.fork("talk", id="branch")).workspace == "home"


@pytest.mark.databases("postgres")
async def test_new_session_waits_for_a_machine_that_has_its_folder(conversation: Conversation, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with machine(conversation.target, "here") as rt:
        assert conversation.agent is not None
        await rt.start(conversation.agent.bind("begin"), id="talk", repository=folder)
        shutil.rmtree(folder)
        view = await rt.run("talk")
        assert [(one.kind, one.ref, one.detail) for one in view.waits] == [("workspace", None, {"folder": str(folder)})]
        folder.mkdir()
        async with perdure.Worker(rt), asyncio.timeout(60):
            while not [one for one in (await rt.get("talk")).waits if one.kind == "input"]:
                await asyncio.sleep(0.01)
