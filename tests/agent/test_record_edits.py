"""What people write to the record reaches the agent: standing orders, tasks, outcomes of decisions."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.errors import SessionWaiting
from tests.agent.conftest import open_runtime
from tests.agent.support import lost_planner
from tests.agent.support.conversation import Conversation, RecordingModel, calls, lines

pytestmark = pytest.mark.databases("sqlite", "postgres")


async def test_agent_is_told_the_orders_of_its_repository_only(conversation: Conversation, folder: Path) -> None:
    conversation.declare(["Yes.", "Yes."])
    async with open_runtime(conversation.target) as runtime:
        await runtime.add_order("Be brief.", name="style")
        await runtime.add_order("Run the tests.", name="tests", repository=folder)
        await runtime.add_order("Never push.", name="push", repository=folder / "other")
        await conversation.start(runtime, repository=folder)
        await runtime.add_order("Run all tests.", name="tests", repository=folder)
        await runtime.send("talk", "continue")
        await runtime.run("talk")
    first, second = (request.instructions for request in conversation.model.requests)
    assert "Standing orders:\n- style: Be brief.\n- tests: Run the tests." in first
    assert "- tests: Run all tests." in second
    assert "Never push." not in first + second


async def test_agent_is_told_what_a_person_changed_in_its_plan(conversation: Conversation) -> None:
    plan = ("plan", {"tasks": [{"title": "Fix it"}, {"title": "Test it"}]})
    choice = ("decide", {"decision": "comment", "because": "only style"})
    again = ("plan", {"tasks": [{"title": "Check the docs", "state": "done"}]})
    conversation.declare([calls(plan, choice), "Planned.", calls(again), "Done."], ["plan", "decide"])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        first, second = [one.id async for one in runtime.tasks(session="talk")]
        await runtime.add_task("talk", "Check the docs", by="ada")
        await runtime.change_task("talk", first, "done", because="by hand", by="ada")
        await runtime.change_task("talk", second, "dropped", by="ada")
        (made,) = [one.id async for one in runtime.decisions(session="talk")]
        await runtime.settle_decision("talk", made, "commented", by="ada")
        await runtime.send("talk", "continue")
        await runtime.run("talk")
        assert [one["items"] for one in await lines(runtime) if one.get("about") == "away"] == [
            [
                f"a person added a task to the plan ({runtime_task('Check the docs')}): Check the docs, by ada",
                f"a person changed a task of the plan ({first}): done, by ada",
                f"a person changed a task of the plan ({second}): dropped, by ada",
                f"a person recorded the outcome of a decision ({made}): commented, by ada",
            ]
        ]
        states = {one.title: (one.state, one.note) async for one in runtime.tasks(session="talk")}
    assert states == {"Fix it": ("done", "by hand"), "Test it": ("dropped", None), "Check the docs": ("done", None)}


def runtime_task(title: str) -> str:
    from perdure.runtime.record_edits import task_id

    return task_id(title)


async def test_agent_is_told_what_a_lost_worker_left_unfinished(conversation: Conversation) -> None:
    command = [sys.executable, "-m", lost_planner.__name__, conversation.target]
    killed = await asyncio.to_thread(
        subprocess.run, command, env=os.environ | {"PERDURE_TEST_KILL": "1"}, capture_output=True, timeout=180
    )
    assert killed.returncode == -signal.SIGKILL
    model = RecordingModel(lost_planner.SCRIPT)
    lost_planner.declare(model)
    async with open_runtime(conversation.target) as runtime:
        with pytest.raises(SessionWaiting):
            await runtime.complete("talk")
        (choice,) = [one.id async for one in runtime.decisions(session="talk")]
    (note,) = [turn.text for turn in model.requests[-1].turns if turn.text.startswith("[While you were away")]
    assert "the worker that ran this session was lost" in note
    assert f"the task {runtime_task('Fix it')} was left active: Fix it" in note
    assert f"the decision {choice} has no outcome yet: rewrite the parser" in note
    assert "Test it" not in note
