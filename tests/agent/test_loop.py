"""The loop of an agent: messages, model calls, tool calls, limits and branches."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import perdure
from perdure import Call, Limits, NotDone, tool
from perdure.agent.history.state_reader import state_of
from perdure.agent.history.transcript import State
from perdure.errors import ModelError, SessionFailed
from perdure.runtime.ledger.ledger import Ledger
from perdure.runtime.run.run import Run
from perdure.store.moves import checkpoint, inbox
from perdure.store.moves import session as sessions
from tests.agent.conftest import open_runtime
from tests.agent.support.conversation import Conversation, calls, lines

pytestmark = pytest.mark.databases("sqlite", "postgres")


async def test_an_agent_answers_and_waits_for_the_next_message(conversation: Conversation) -> None:
    conversation.declare(["Hello.", "Hello again."])
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        assert [one.kind for one in session.waits] == ["input"]
        await runtime.send("talk", "and now?")
        session = await runtime.run("talk")
        assert [one.kind for one in session.waits] == ["input"]
        assert [line["content"] for line in await lines(runtime)] == ["begin", "Hello.", "and now?", "Hello again."]


@pytest.mark.databases("sqlite", "memory", "files", "postgres")
async def test_a_one_shot_agent_ends_with_its_answer(conversation: Conversation) -> None:
    conversation.declare([calls(("echo", {"text": "x"})), "Done."], [echo()])
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime, once=True)
        assert (session.status, session.result) == ("done", "Done.")


async def test_each_call_is_an_effect_whose_outcome_reaches_the_model(conversation: Conversation) -> None:
    @tool(replay="idempotent")
    def post(body: str) -> dict[str, str]:
        return {"posted": body}

    @tool(replay="idempotent", retry=1)
    def refuse() -> str:
        raise NotDone("the service said no")

    conversation.declare(
        [calls(("post", {"body": "hi"}), ("refuse", {}), ("nothing", {}), ("post", "{bad"), ("post", {"b": 1})), "Ok."],
        [post, refuse],
    )
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        told = conversation.tool_results()
        assert told[0] == 'done: {"posted":"hi"}'
        assert told[1].startswith("failed: refuse (e-")
        assert told[1].endswith("the service said no")
        assert told[2] == "not started: there is no tool 'nothing'; there are: post, refuse."
        assert told[3] == "not started: the arguments are not a JSON object: '{bad'"
        assert told[4].startswith("not started: post: ")
        states = {one.tool: one.state async for one in runtime.effects(session="talk")}
        assert states == {"model": "acknowledged", "post": "acknowledged", "refuse": "failed"}


async def test_a_model_call_is_recorded_once_with_its_usage(conversation: Conversation) -> None:
    conversation.declare([{"text": "Hi.", "usage": {"tokens_in": 10, "tokens_out": 5, "cost_micros": 7}}])
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        assert (session.tokens_in, session.tokens_out, session.cost_micros) == (10, 5, 7)
    if conversation.target == "memory:":
        return
    async with open_runtime(conversation.target) as runtime:
        assert (await runtime.run("talk")).status == "waiting"
        assert len(conversation.model.requests) == 1


async def test_a_steering_message_is_read_once_between_two_calls(conversation: Conversation) -> None:
    entered, go_on = asyncio.Event(), asyncio.Event()

    @tool(replay="idempotent")
    async def slow() -> str:
        entered.set()
        await go_on.wait()
        return "slow is done"

    conversation.declare([calls(("slow", {})), "I changed my mind.", "And then the queue."], [slow])
    async with open_runtime(conversation.target) as runtime:
        running = asyncio.create_task(conversation.start(runtime))
        await entered.wait()
        await runtime.send("talk", "later", message_id="m-2")
        await runtime.send("talk", "stop that", message_id="m-1", mode="steer")
        await runtime.send("talk", "stop that", message_id="m-1", mode="steer")
        go_on.set()
        await running
        said = [(line["role"], line["content"]) for line in await lines(runtime)]
        assert said == [
            ("user", "begin"),
            ("assistant", ""),
            ("tool", "slow is done"),
            ("user", "stop that"),
            ("assistant", "I changed my mind."),
            ("user", "later"),
            ("assistant", "And then the queue."),
        ]


async def test_a_limit_stops_the_agent_and_a_message_resumes_it(conversation: Conversation) -> None:
    conversation.declare([calls(("echo", {"text": str(n)})) for n in range(9)], [echo()], limits=Limits(turns=3))
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        assert session.waits[0].detail == {"about": "limit", "why": "3 model calls were made, which is the limit."}
        assert len(conversation.model.requests) == 3
        await runtime.send("talk", "continue")
        await runtime.run("talk")
        assert len(conversation.model.requests) == 6


async def test_a_model_error_loses_nothing(conversation: Conversation) -> None:
    class Broken:
        name = "broken"
        asked = 0

        async def reply(self, request: Any, hear: Any) -> Any:
            self.asked += 1
            raise ModelError("The key is wrong.", retry=False)

    broken = Broken()
    conversation.declare([], model=broken)
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        assert (session.status, broken.asked) == ("waiting", 1)
        assert session.waits[0].detail["why"] == "The model could not answer: The key is wrong."
        conversation.declare(["Now I can."])
        await runtime.send("talk", "try again")
        await runtime.run("talk")
        assert (await lines(runtime))[-1]["content"] == "Now I can."


async def test_a_model_is_called_again_after_its_retry_time(conversation: Conversation) -> None:
    class Busy:
        name = "busy"
        asked = 0

        async def reply(self, request: Any, hear: Any) -> Any:
            self.asked += 1
            if self.asked < 3:
                raise ModelError("Too many requests.", retry_after=0.01)
            return await conversation.model.reply(request, hear)

    conversation.declare(["At last."], model=Busy())
    async with open_runtime(conversation.target) as runtime:
        assert (await conversation.start(runtime, once=True)).result == "At last."


async def test_a_one_shot_session_fails_with_the_error_of_the_model(conversation: Conversation) -> None:
    conversation.declare([calls(("echo", {"text": "x"}))] * 5, [echo()], limits={"turns": 2})
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime, once=True)
        with pytest.raises(SessionFailed, match="2 model calls"):
            await runtime.result("talk")


async def test_equal_calls_of_two_messages_are_two_effects(conversation: Conversation) -> None:
    done: list[str] = []

    @tool(replay="idempotent")
    def count(call: Call) -> int:
        done.append(call.key)
        return len(done)

    conversation.declare([calls(("count", {}), ("count", {})), calls(("count", {})), "Three."], [count])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        assert len(done) == len(set(done)) == 3


async def test_deleting_checkpoints_changes_nothing_but_time(conversation: Conversation) -> None:
    conversation.declare([calls(("echo", {"text": str(n)})) for n in range(40)] + ["End."], [echo()])
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        with_it, kept = await runtime.store.read(_state, session.uid)
        assert kept > 0
        await runtime.store.write(checkpoint.delete_all())
        without, kept = await runtime.store.read(_state, session.uid)
        assert kept == 0
        assert with_it == without


async def test_a_branch_continues_from_its_fork_and_repeats_no_effect(conversation: Conversation) -> None:
    done: list[int] = []

    @tool(replay="idempotent")
    def act(n: int) -> str:
        done.append(n)
        return f"did {n}"

    conversation.declare([calls(("act", {"n": 1})), calls(("act", {"n": 2})), "End.", "Branch."], [act])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        branch = await runtime.fork("talk")
        await runtime.send(branch.id, "another way")
        await runtime.run(branch.id)
        assert done == [1, 2]
        assert [turn.text for turn in conversation.turns_shown() if turn.role != "assistant"] == [
            "begin", "done: did 1", "done: did 2", "another way",
        ]  # fmt: skip


async def test_a_branch_between_calls_inherits_settled_effects(conversation: Conversation) -> None:
    done: list[int] = []

    @tool(replay="idempotent")
    def act(n: int) -> str:
        done.append(n)
        return f"did {n}"

    conversation.declare([calls(("act", {"n": 1}), ("act", {"n": 2})), "End."], [act], parallel=1)
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        settled = [one async for one in runtime.events("talk") if one.kind == "effect.acknowledged" and one.effect_id]
        id = await _effect_of(runtime, 1)
        first = next(one.number for one in settled if one.effect_id == id)
        branch = await runtime.fork("talk", at=first)
        await runtime.run(branch.id)
        assert done.count(1) == 1
        assert done.count(2) == 2  # it was planned after the fork, so the branch planned its own
        assert conversation.tool_results() == ["done: did 1", "done: did 2"]


async def _effect_of(runtime: perdure.Runtime, n: int) -> str:
    return next(
        one.id for one in [e async for e in runtime.effects(session="talk", tool="act")] if one.intent["n"] == n
    )


def _state(tx: Any, uid: str) -> tuple[State, int]:
    return state_of(tx, sessions.get(tx, uid))


def echo() -> Any:
    @tool(replay="pure", name="echo")
    def echo(text: str) -> str:
        """Say the same again."""
        return text

    return echo


@pytest.mark.databases("memory")
async def test_a_message_to_an_ending_one_shot_session_is_not_lost(conversation: Conversation) -> None:
    """It is taken in after the session has looked for messages for the last time, and before it ends."""
    agent = conversation.declare(["Done.", "Heard."])
    main = agent.main
    sent: list[Any] = []
    async with open_runtime(conversation.target) as runtime:

        async def late(run: Run, ledger: Ledger) -> Any:
            answer = await main(run, ledger)
            if not sent:
                sent.append(await runtime.send("talk", "one thing more", message_id="m-1"))
            return answer

        agent.main = late  # type: ignore[method-assign]
        session = await conversation.start(runtime, once=True)
        kept = await runtime.store.read(inbox.get, session.uid, "m-1")
        assert kept is not None
        assert kept.promoted_as is not None, "it was taken in, and never read"


@pytest.mark.databases("memory")
@pytest.mark.parametrize("said", [0, False, [], {}, 0.0])
async def test_a_message_that_is_not_text_is_shown(conversation: Conversation, said: Any) -> None:
    conversation.declare(["Hello.", "Yes."])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        await runtime.send("talk", said)
        await runtime.run("talk")
        assert conversation.turns_shown()[-1].text != "(nothing)"


@pytest.mark.databases("memory")
async def test_a_received_message_is_read_before_a_one_shot_session_ends(conversation: Conversation) -> None:
    conversation.declare(["Done.", "Heard."])
    async with open_runtime(conversation.target) as runtime:
        session = await runtime.start(conversation.agent.bind("begin", True), id="talk")  # type: ignore[union-attr]
        await runtime.send("talk", "also this")
        view = await runtime.run(session.id)
        assert view.status == "done"
        assert "also this" in [one["content"] for one in await lines(runtime)]
