"""Each effect of an agent names the task of the plan that was active when it was planned."""

from __future__ import annotations

import pytest

from perdure.store.move import StoreTransaction
from perdure.store.moves import event, task
from tests.agent.conftest import open_runtime
from tests.agent.support.conversation import Conversation, calls
from tests.agent.test_permissions import posts

pytestmark = pytest.mark.databases("sqlite", "postgres")


def planning(first: str, second: str) -> tuple[str, dict[str, object]]:
    return ("plan", {"tasks": [{"title": "Read", "state": first}, {"title": "Write", "state": second}]})


def post(text: str) -> tuple[str, dict[str, object]]:
    return ("post_note", {"text": text})


async def test_an_effect_names_the_task_that_is_active(
    conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    original = task.active

    def active(tx: StoreTransaction, uid: str) -> str | None:
        reads.append(uid)
        return original(tx, uid)

    monkeypatch.setattr(task, "active", active)
    script = [
        calls(post("before")), calls(planning("active", "open")), calls(post("read")),
        calls(planning("done", "active")), calls(post("write")), calls(planning("done", "done")), calls(post("after")),
        "End.",
    ]  # fmt: skip
    conversation.declare(script, ["plan", posts()])
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        assert [one.kind for one in session.waits] == ["input"]
        ids = {one.title: one.id async for one in runtime.tasks(session="talk")}
        found = {one.intent["text"]: one.task_id async for one in runtime.effects(session="talk", tool="post_note")}
        assert found == {
            "before": None, "read": ids["Read"], "write": ids["Write"], "after": None,
        }  # fmt: skip
        assert len(reads) == 4  # once, and after each change of the plan
        runtime.store.read_now(event.verify, session.uid)
        state = await runtime.state_at("talk")
        shown = {one["intent"]["text"]: one["task_id"] for one in state.effects.values() if one["tool"] == "post_note"}
        assert shown == found
