"""The sandbox level of a call is recorded with its attempt, for commands and for what git runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.agent.commands.sandbox import available
from perdure.store.moves.attempt import attempts_of
from tests.agent.conftest import open_runtime
from tests.agent.support.conversation import Conversation, calls
from tests.agent.support.tool_calls import make_repository, trust_hooks

pytestmark = pytest.mark.databases("sqlite")
ACTS = [
    calls(("git_status", {})),
    calls(("run_command", {"command": "echo two > a.txt"})),
    calls(("git_commit", {"message": "second"})),
    calls(("git_branch", {"name": "fix"})),
    calls(("git_push", {})),
    calls(("read_file", {"path": "a.txt"})),
    "End.",
]
FENCED = ["git_branch", "git_commit", "git_push"]


@pytest.mark.slow
@pytest.mark.parametrize("trusted", [False, True], ids=["fenced", "trusted"])
async def test_every_attempt_records_its_sandbox_level(
    conversation: Conversation, tmp_path: Path, trusted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_repository(tmp_path / "work")
    if trusted:
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        trust_hooks(tmp_path / "work", tmp_path / "home")
    conversation.declare(
        ACTS,
        ["git_status", "run_command", "git_commit", "git_branch", "git_push", "read_file"],
        snapshots=False,
        unsandboxed=True,
    )
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime, repository=tmp_path / "work")
        made = {}
        async for one in runtime.effects(session="talk"):
            attempts = await runtime.store.read(attempts_of, session.uid, one.id)
            made[one.tool] = [attempt.sandbox for attempt in attempts]
    expected = str(available())
    assert {name: made[name] for name in FENCED} == {name: ["none" if trusted else expected] for name in FENCED}
    assert made["run_command"] == made["git_status"] == [expected]
    assert made["read_file"] == [None]
