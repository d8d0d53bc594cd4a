"""Live text: the output of a model is published while it arrives, and removed when it is recorded."""

from __future__ import annotations

import asyncio

import pytest

from perdure import faults
from perdure.agent.model import OnText, Reply, Request
from perdure.errors import ModelError
from perdure.runtime.live_text.delta import Delta
from perdure.runtime.live_text.file import LiveTextReader
from tests.agent.conftest import open_runtime
from tests.agent.support.conversation import Conversation, lines

pytestmark = pytest.mark.databases("sqlite")


class FailingModel:
    """Breaks off in the middle of its first attempt; the second it says to the end, or gives up."""

    name = "stutters"

    def __init__(self, *, answers: bool) -> None:
        self.asked = 0
        self.answers = answers

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        self.asked += 1
        on_text("Hel\ud800\0")
        if self.asked == 1:
            raise ModelError("the line was cut", retry_after=0)
        if not self.answers:
            raise ModelError("no more", retry=False)
        on_text("lo")
        return Reply("Hel\ud800\0lo")


@pytest.mark.parametrize("answers", [True, False])
async def test_a_failed_model_call_is_followed_by_a_new_call(conversation: Conversation, answers: bool) -> None:
    conversation.declare([], model=FailingModel(answers=answers))
    heard: list[Delta] = []
    received: list[list[Delta]] = []
    async with open_runtime(conversation.target) as runtime:

        def on_text(piece: Delta) -> None:
            heard.append(piece)
            received.append(ears.setdefault(piece.session, LiveTextReader(runtime.live_text, piece.session)).poll())

        ears: dict[str, LiveTextReader] = {}
        runtime.on_delta = on_text
        session = await conversation.start(runtime)
        (retry,) = [one for one in heard if one.retry is not None]
        assert heard.index(retry) == 2
        assert (retry.retry.attempt, retry.retry.why) == (2, "the line was cut")  # type: ignore[union-attr]
        heard.remove(retry)
        said = [("Hel?␀", False), ("", True), ("Hel?␀", False), ("lo", False) if answers else ("", True)]
        assert [(one.text, one.broke_off) for one in heard] == said
        assert len({(one.call, one.after) for one in heard}) == len({one.call for one in heard}) == 2
        (ear,) = ears.values()
        received.append(ear.poll())
        assert [one.text for pieces in received for one in pieces if one.text] == [text for text, _ in said if text]
        messages = [one async for one in runtime.events(session.id) if one.kind == "message"]
        if answers:
            assert messages[-1].body["content"] == "Hel?␀lo"  # what was heard is what is kept
            assert heard[-1].after < messages[-1].number
            assert runtime.live_text.folder is not None
            assert list(runtime.live_text.folder.iterdir()) == []
        assert ear.poll() == []


@pytest.mark.databases("memory")
async def test_a_raising_listener_does_not_stop_the_model(conversation: Conversation) -> None:
    class Speaks:
        name = "speaks"

        async def reply(self, request: Request, on_text: OnText) -> Reply:
            on_text("Hel")
            return Reply("Hello.")

    def broken(piece: Delta) -> None:
        raise BrokenPipeError("the listener is gone")

    conversation.declare([], model=Speaks())
    async with open_runtime(conversation.target) as runtime:
        runtime.on_delta = broken
        session = await conversation.start(runtime)
        assert session.waits[0].detail is None, session.waits[0].detail


@pytest.mark.databases("memory")
async def test_the_effect_of_an_answered_model_call_is_not_failed(conversation: Conversation) -> None:
    """The failure and the note that says so are one commit: there is no moment at which it would ask again."""

    class Once:
        name = "once"
        asked = 0

        async def reply(self, request: Request, on_text: OnText) -> Reply:
            self.asked += 1
            if self.asked > 1:
                return Reply("Hello.")
            faults.arm(stop)
            raise ModelError("Away.", retry=False)

    here = asyncio.get_running_loop()

    def stop(name: str) -> None:
        if name == "commit.after":
            faults.disarm()
            here.call_soon_threadsafe(running.cancel)

    conversation.declare([], model=Once())
    async with open_runtime(conversation.target) as runtime:
        running = asyncio.create_task(conversation.start(runtime))
        with pytest.raises(asyncio.CancelledError):
            await running
        await runtime.run("talk")
        states = [one.state async for one in runtime.effects(session="talk", tool="model")]
        assert states == ["failed"]
        await runtime.send("talk", "try again")
        await runtime.run("talk")
        states = [one.state async for one in runtime.effects(session="talk", tool="model")]
        answers = [one for one in await lines(runtime) if one["role"] == "assistant"]
        assert states.count("acknowledged") == len(answers)
