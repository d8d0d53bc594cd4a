"""Changes while the session was idle are recorded and shown to the model."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from perdure import tool
from perdure.clock import SECOND
from perdure.store.moves import checkpoint, fact
from perdure.testing import ManualClock
from tests.agent.conftest import open_runtime
from tests.agent.support.conversation import Conversation, calls, lines

pytestmark = pytest.mark.databases("sqlite", "postgres")

READ = ("read_file", {"path": "a.txt"})


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for command in (["init", "-q", "-b", "main"], ["commit", "-q", "--allow-empty", "-m", "begin"]):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *command], cwd=tmp_path, check=True)
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / "b.txt").write_text("two\n")
    return tmp_path


async def away(runtime: Any) -> list[str]:
    """What was said on the last resume, item by item."""
    notes = [line for line in await lines(runtime) if line.get("about") == "away"]
    return notes[-1]["items"] if notes else []


@pytest.mark.slow
async def test_a_file_that_changed_must_be_read_again_before_it_is_edited(
    conversation: Conversation, repository: Path
) -> None:
    edit = ("edit_file", {"path": "a.txt", "old": "one", "new": "uno"})
    conversation.declare([calls(READ), "Read.", calls(edit), "Refused.", calls(READ), calls(edit), "Done."],
                 ["read_file", "edit_file"])  # fmt: skip
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime, repository=repository)
        (repository / "a.txt").write_text("one more\n")
        await runtime.send("talk", "continue")
        await runtime.run("talk")
        assert await away(runtime) == ["a.txt changed since it was read; read it again before relying on it"]
        assert conversation.tool_results()[-1].startswith("not started: ")
        await runtime.send("talk", "read it again")
        await runtime.run("talk")
        assert (repository / "a.txt").read_text() == "uno more\n"


async def test_unchanged_things_are_not_reported(conversation: Conversation, repository: Path) -> None:
    conversation.declare([calls(READ), "Read.", "Still read."], ["read_file"])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime, repository=repository)
        await runtime.send("talk", "continue")
        await runtime.run("talk")
        assert await away(runtime) == []


async def test_missing_files_and_moved_branches_are_reported(conversation: Conversation, repository: Path) -> None:
    conversation.declare([calls(READ), "Read.", "I see.", "I see."], ["read_file"])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime, repository=repository)
        (repository / "a.txt").unlink()
        commit = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "more"]
        subprocess.run(commit, cwd=repository, check=True)
        await runtime.send("talk", "continue")
        await runtime.run("talk")
        found = await away(runtime)
        assert found[0] == "a.txt is gone since it was read; read it again before relying on it"
        assert found[1].startswith("branch main moved from ")
        subprocess.run(["git", "switch", "-q", "-c", "other"], cwd=repository, check=True)
        await runtime.send("talk", "continue")
        await runtime.run("talk")
        assert await away(runtime) == ["the folder is on branch other and no longer on main"]


async def test_missing_tools_and_models_are_reported(conversation: Conversation, repository: Path) -> None:
    conversation.declare(["Hello."], ["read_file", "plan"])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime, repository=repository)
        conversation.declare(["Hello.", "Hello again."], ["read_file"])
        conversation.model._script = type(conversation.model._script)(["Hello.", "Again."], name="scripted:newer")
        await runtime.send("talk", "continue")
        await runtime.run("talk")
        assert await away(runtime) == [
            "these tools are no longer available: plan",
            "the model is scripted:newer now and was scripted",
        ]


async def test_facts_past_their_age_are_marked(conversation: Conversation, clock: ManualClock) -> None:
    conversation.declare(["Hello.", "I see."])
    async with open_runtime(conversation.target, clock=clock) as runtime:
        session = await conversation.start(runtime)
        kept = fact.remember(session.uid, "ada", "orders", "deadline", "friday", stale_after=60 * SECOND)
        await runtime.store.write(kept)
        clock.advance(seconds=120)
        await runtime.send("talk", "continue")
        await runtime.run("talk")
        assert await away(runtime) == ["the fact deadline is stale; check it before you rely on it"]


async def test_a_stale_fact_is_reported_once_until_it_changes(conversation: Conversation, clock: ManualClock) -> None:
    conversation.declare(["Hello.", *(f"I see {n}." for n in range(9))])
    stale = ["the fact deadline is stale; check it before you rely on it"]

    async def notes_after(seconds: int) -> int:
        clock.advance(seconds=seconds)
        async with open_runtime(conversation.target, clock=clock) as runtime:
            before = [line for line in await lines(runtime) if line.get("about") == "away"]
            await runtime.send("talk", "continue")
            await runtime.run("talk")
            after = [line for line in await lines(runtime) if line.get("about") == "away"]
        assert all(line["items"] == stale for line in after)
        return len(after) - len(before)

    async with open_runtime(conversation.target, clock=clock) as runtime:
        uid = (await conversation.start(runtime)).uid
        await runtime.store.write(fact.remember(uid, "ada", "orders", "deadline", "friday", stale_after=60 * SECOND))
    assert [await notes_after(120), await notes_after(120), await notes_after(1)] == [1, 0, 0]
    async with open_runtime(conversation.target, clock=clock) as runtime:
        await runtime.store.write(fact.record_verification(uid, "ada", "orders", "deadline", 1))
    assert [await notes_after(1), await notes_after(120), await notes_after(1)] == [0, 1, 0]
    async with open_runtime(conversation.target, clock=clock) as runtime:
        await runtime.store.write(fact.remember(uid, "ada", "orders", "deadline", "monday", stale_after=60 * SECOND))
        await runtime.store.write(checkpoint.delete_all())
    assert [await notes_after(120), await notes_after(1)] == [1, 0]


async def decided_note(conversation: Conversation, *, here: bool) -> str:
    """What the model is told when an approval was decided: at the prompt of this process, or by another one."""

    @tool(replay="idempotent")
    def away_post() -> str:
        return "posted"

    conversation.declare([calls(("away_post", {})), "Posted."], [away_post], policy=lambda _: "ask")
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        (asked,) = session.waits
        if here:
            await runtime.approve(asked.id, by="ada", because="go")
        else:
            async with open_runtime(conversation.target) as other:
                await other.approve(asked.id, by="ada", because="go")
        await runtime.run("talk")
    return next(turn.text for turn in conversation.turns_shown() if turn.text.startswith("["))


async def test_a_decision_at_the_prompt_is_reported_plainly(conversation: Conversation) -> None:
    said = await decided_note(conversation, here=True)
    assert said.startswith("[An approval was decided (a-")
    assert said.endswith("): approved by ada.]")


async def test_a_decision_made_in_absence_is_reported_as_such(conversation: Conversation) -> None:
    said = await decided_note(conversation, here=False)
    assert said.startswith("[While you were away: an approval was decided (a-")
    assert said.endswith("): approved by ada.]")
