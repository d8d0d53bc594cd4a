"""Two sessions that share a remote never push over each other."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from perdure import Agent
from perdure.testing import ScriptedModel
from perdure.testing.proxy import wait_until
from tests.agent.conftest import open_runtime
from tests.agent.support.conversation import Conversation, calls, lines
from tests.agent.support.git_repository import git, write

pytestmark = pytest.mark.databases("sqlite", "postgres")
HOOK = "#!/bin/sh\ntouch {held}\nfor n in $(seq 500); do test -e {held} && sleep 0.01; done\n"


@pytest.fixture
def clones(tmp_path: Path) -> list[Path]:
    """Two clones with a commit each; the remote takes its time until the file `held` is gone."""
    remote, first = tmp_path / "remote.git", tmp_path / "one"
    tmp_path.joinpath("seed").mkdir()
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", str(remote))
    git(tmp_path / "seed", "init", "--quiet", "--initial-branch=main")
    git(tmp_path / "seed", "commit", "--quiet", "--allow-empty", "--message=begin")
    git(tmp_path / "seed", "push", "--quiet", str(remote), "main")
    made = [first, tmp_path / "two"]
    for nth, clone in enumerate(made):
        git(tmp_path, "clone", "--quiet", f"--origin=remote{nth}", str(remote), str(clone))
        write(clone, {f"{clone.name}.txt": "mine\n"})
        git(clone, "add", "--all")
        git(clone, "commit", "--quiet", f"--message={clone.name}")
    hook = remote / "hooks" / "pre-receive"
    hook.write_text(HOOK.format(held=tmp_path / "held"))
    hook.chmod(0o755)
    return made


@pytest.mark.slow
async def test_the_second_push_waits_and_finds_the_branch_moved(
    conversation: Conversation, clones: list[Path], tmp_path: Path
) -> None:
    scripts: list[list[Any]] = [[calls(("git_push", {"remote": f"remote{nth}"})), "End."] for nth in (0, 1)]
    agents = [
        Agent(f"pusher{nth}", model=ScriptedModel(script), tools=["git_push"], policy=None, snapshots=False)
        for nth, script in enumerate(scripts)
    ]
    held = tmp_path / "held"
    async with open_runtime(conversation.target) as runtime:
        for agent, clone in zip(agents, clones, strict=True):
            await runtime.start(agent.bind("push"), id=clone.name, repository=clone)
        first = asyncio.create_task(runtime.run("one"))
        try:
            await asyncio.to_thread(wait_until, held.exists, "the first push is under way")
            second = await runtime.run("two")
            assert [one.kind for one in second.waits] == ["lease"]
        finally:
            held.unlink(missing_ok=True)
            await first
        await runtime.run("two")
        told = [
            [one["status"] for one in await lines(runtime, name) if one["role"] == "tool"] for name in ("one", "two")
        ]
    assert told == [["done"], ["failed"]]
    assert git(tmp_path / "remote.git", "log", "--format=%s", "main").split() == ["one", "begin"]
