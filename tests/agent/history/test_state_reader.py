"""The state of an agent, read from its transcript with and without checkpoints."""

from __future__ import annotations

import pytest

from perdure.agent import loop
from perdure.agent.history.state_reader import FINGERPRINT
from perdure.agent.history.transcript import CODEC
from perdure.runtime.run.session_lease import acquire
from perdure.store.moves import checkpoint, event, message
from perdure.store.moves import session as sessions
from tests.agent.conftest import open_runtime
from tests.agent.support.conversation import Conversation, calls
from tests.agent.support.summaries import SummaryModel, poster, state

pytestmark = pytest.mark.databases("memory")


async def test_state_of_a_nested_branch_is_the_same_without_checkpoints(
    conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "CHECKPOINT_EVERY", 7)
    script = [calls(("post", {"n": n})) if n % 4 else f"So far {n}." for n in range(1, 40)]
    agent = conversation.declare(script, [poster()])
    agent.model, agent.context = SummaryModel(conversation, ["Things were posted."]), 600
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        name = "talk"
        for _ in range(3):
            for _ in range(3):
                await runtime.send(name, "continue")
                await runtime.run(name)
            events = [one.number async for one in runtime.events(name) if one.kind == "message"]
            name = (await runtime.fork(name, at=events[-3])).id
            await runtime.run(name)
        with_them = {one.id: await state(runtime, one.id) async for one in runtime.sessions()}
        await runtime.store.write(checkpoint.delete_all())
        assert with_them == {id: await state(runtime, id) for id in with_them}


async def test_erasing_the_first_line_of_the_context_leaves_the_rest(conversation: Conversation) -> None:
    agent = conversation.declare([calls(("post", {"n": n})) for n in range(8)] + ["End."], [poster()])
    agent.model, agent.context = SummaryModel(conversation, ["Things were posted."]), 600
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        before = await state(runtime)
        assert before.first is not None
        await runtime.store.write(event.erase(session.uid, "ada", [before.first[1]], because="asked for"))
        await runtime.store.write(checkpoint.delete_all())
        after = await state(runtime)
        assert [one.number for one in after.lines] == [one.number for one in before.lines[1:]]


async def test_erased_text_is_in_no_checkpoint_that_is_read(
    conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "CHECKPOINT_EVERY", 4)
    agent = conversation.declare([calls(("post", {"n": n})) for n in range(8)] + ["End."], [poster()])
    agent.model, agent.context = SummaryModel(conversation, ["The secret is 42."]), 600
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        numbers = [
            one.number async for one in runtime.events("talk") if one.kind == "message" and "42" in str(one.body)
        ]
        await runtime.store.write(event.erase(session.uid, "ada", numbers, because="asked for"))
        with_it = await state(runtime)
        await runtime.store.write(checkpoint.delete_all())
        assert with_it == await state(runtime)


async def test_an_unreadable_checkpoint_is_ignored(conversation: Conversation) -> None:
    conversation.declare(["Hello.", "Again."])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        await runtime.send("talk", "continue")
        holder = await acquire(runtime, await runtime.get("talk"))
        body = '{"number":"seven"}'
        await runtime.store.write(checkpoint.put(holder, number=5, codec=CODEC, fingerprint=FINGERPRINT, body=body))
        await runtime.store.write(sessions.release(holder))
        assert (await runtime.run("talk")).status == "waiting"


@pytest.mark.slow
async def test_a_transcript_of_over_100_000_lines_is_read_whole(conversation: Conversation) -> None:
    conversation.declare(["Hello."])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        await runtime.send("talk", "continue")
        holder = await acquire(runtime, await runtime.get("talk"))
        for _ in range(101):
            await runtime.store.write(
                message.append_lines(holder, [{"role": "note", "about": "away", "content": "x"}] * 1000)
            )
        await runtime.store.write(sessions.release(holder))
        newest = (await runtime.get("talk")).cursor - 1
        assert (await state(runtime)).number == newest
