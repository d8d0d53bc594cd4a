"""Closing and renaming a session: refusals, the result, the log, and kills."""

from __future__ import annotations

import signal

import pytest

from perdure import ConfigError, IllegalMove, Session, program, tool
from perdure.store.moves import event, wait
from tests.agent.conftest import open_runtime
from tests.agent.support.conversation import Conversation, calls
from tests.runtime.support.killed_calls import run_and_kill

pytestmark = pytest.mark.databases("sqlite", "postgres")


async def test_closed_session_is_done_with_its_last_answer(conversation: Conversation) -> None:
    conversation.declare(["First.", "Last."])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        await runtime.send("talk", "more")
        await runtime.run("talk")
        closed = await runtime.close_session("talk", by="ada")
        assert (closed.status, closed.result, closed.waits) == ("done", "Last.", ())
        assert (await runtime.result("talk"), closed.lease_holder) == ("Last.", None)
        await runtime.store.read(event.verify, closed.uid)
        assert (await runtime.state_at("talk")).session["status"] == "done"
        for refused in (runtime.close_session("talk"), runtime.send("talk", "too late")):
            with pytest.raises(IllegalMove):
                await refused


async def test_branch_is_closed_with_the_answer_of_its_parent(conversation: Conversation) -> None:
    conversation.declare(["Done."])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        branch = await runtime.fork("talk")
        await runtime.run(branch.id)
        assert (await runtime.close_session(branch.id)).result == "Done."
        assert (await runtime.get("talk")).status == "waiting"


async def test_session_with_unfinished_work_is_not_closed(conversation: Conversation) -> None:
    @tool
    def lose(n: int) -> int:
        raise TimeoutError("no answer")

    @program
    async def asks(s: Session) -> str:
        return str(await s.ask("continue?"))

    conversation.declare([calls(("lose", {"n": 1})), "I do not know.", "Again."], [lose])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        with pytest.raises(IllegalMove, match="unsettled effects"):
            await runtime.close_session("talk")
        await runtime.start(asks.bind(), id="asks")
        with pytest.raises(IllegalMove, match="is ready"):
            await runtime.close_session("asks")
        await runtime.run("asks")
        with pytest.raises(IllegalMove, match="does not only wait for a message"):
            await runtime.close_session("asks")


async def test_session_with_an_unread_message_is_not_closed(conversation: Conversation) -> None:
    conversation.declare(["Done."])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        await runtime.send("talk", "one more thing")
        with pytest.raises(IllegalMove):
            await runtime.close_session("talk")
        assert (await runtime.get("talk")).status == "ready"


@pytest.mark.parametrize("kill_at", range(1, 5))
async def test_killed_close_leaves_the_session_waiting_or_done(conversation: Conversation, kill_at: int) -> None:
    conversation.declare(["Done."])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)

    ended = await run_and_kill(conversation.target, 'await rt.close_session("talk")', kill_at)
    assert ended == -signal.SIGKILL
    async with open_runtime(conversation.target) as runtime:
        view = await runtime.get("talk")
        assert (view.status, len(view.waits)) in (("waiting", 1), ("done", 0))
        if view.status == "waiting":
            await runtime.close_session("talk")
        assert (await runtime.get("talk")).result == "Done."
        assert await runtime.store.read(wait.open_of_session, view.uid) == []
        await runtime.store.read(event.verify, view.uid)


async def test_title_is_changed_also_while_the_session_runs_and_after_its_end(conversation: Conversation) -> None:
    @tool
    async def retitle(title: str) -> str:
        await runtime.rename("talk", title, by="ada")
        return title

    conversation.declare([calls(("retitle", {"title": "Running"})), "Done."], [retitle])
    async with open_runtime(conversation.target) as runtime:
        view = await conversation.start(runtime)
        assert (view.title, view.status) == ("Running", "waiting")
        await runtime.close_session("talk")
        renamed = await runtime.rename("talk", "Ended")
        assert (renamed.title, renamed.id) == ("Ended", "talk")
        assert (await runtime.rename("talk", "Ended")).version == renamed.version
        with pytest.raises(ConfigError):
            await runtime.rename("talk", " ")
        await runtime.store.read(event.verify, view.uid)
