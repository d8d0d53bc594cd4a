"""An idle agent has one wait for the next message, one for each open matter, and no stale waits."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

import perdure
from perdure import faults, tool
from perdure.agent.history.state_reader import FINGERPRINT, state_of
from perdure.agent.loop import Loop
from perdure.agent.model import OnText, Reply, Request
from perdure.domain.effect import Verdict
from perdure.domain.wait import Wait
from perdure.errors import ModelError, PerdureError
from perdure.store.moves import checkpoint, doubt, message, wait
from perdure.testing import ManualClock
from tests.agent.conftest import open_runtime
from tests.agent.support import interrupted_agent
from tests.agent.support.conversation import Conversation, calls, lines
from tests.agent.support.run_limits import cancel_after
from tests.agent.test_call_report import _log, interrupt, resumed, work  # noqa: F401 - fixtures of the killed agent

pytestmark = pytest.mark.databases("sqlite", "postgres")


async def still_open(runtime: perdure.Runtime, uid: str) -> list[Wait]:
    return await runtime.store.read(wait.open_of_session, uid)


@pytest.mark.slow
async def test_a_kill_before_parking_leaves_one_wait_for_a_message(target: str) -> None:
    interrupt(target, "resting").wait()
    _, model = interrupted_agent.agent("resting")
    async with open_runtime(target) as runtime:
        (left,) = (await runtime.get("dangling")).waits
        view = await resumed(runtime)
        assert [one.kind for one in view.waits] == ["input"]
        assert model.seen == []  # it had answered, and is not asked again
        await runtime.send("dangling", "continue")
        view = await resumed(runtime)
        (now,) = await still_open(runtime, view.uid)
        assert (now.kind, now.id == left.id) == ("input", False)


def failing_mail() -> Any:
    @tool(inflight="1ms", name="rest_mail")
    def mail() -> str:
        """Send a mail with an unknown outcome."""
        raise RuntimeError("the line was cut")

    return mail


async def test_settling_during_a_wait_leaves_no_second_wait(conversation: Conversation) -> None:
    conversation.declare([calls(("rest_mail", {})), "I do not know.", "Now I know."], [failing_mail()])
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        doubted = next(one.ref for one in session.waits if one.kind == "doubt")
        assert doubted is not None
        await runtime.settle(doubted, "happened", by="ada", because="she has it", result="mailed")
        view = await runtime.run("talk")
        assert [one.kind for one in view.waits] == ["input"]


async def test_a_finished_wait_is_closed_before_the_model_call(conversation: Conversation) -> None:
    seen: list[list[str]] = []

    class Looking:
        name = "looking"

        async def reply(self, request: Request, on_text: OnText) -> Reply:
            seen.append([str(one.kind) for one in await still_open(runtime, session)])
            return await conversation.model.reply(request, on_text)

    agent = conversation.declare([calls(("rest_mail", {})), "I do not know.", "Now I know."], [failing_mail()])
    agent.model = Looking()
    session = ""
    async with open_runtime(conversation.target) as runtime:
        view = await conversation.start(runtime)
        session = view.uid
        doubted = next(one.ref for one in view.waits if one.kind == "doubt")
        assert doubted is not None
        await runtime.settle(doubted, "happened", by="ada", because="she has it", result="mailed")
        await runtime.run("talk")
    assert seen[-1] == []


async def branch_in_doubt(conversation: Conversation, runtime: perdure.Runtime) -> tuple[str, str]:
    """A branch at rest that was told that an effect of its line is unknown; its id, and the effect's."""
    conversation.declare([calls(("rest_mail", {})), "I do not know.", "On my way.", "Now I know."], [failing_mail()])
    session = await conversation.start(runtime)
    doubted = next(one.ref for one in session.waits if one.kind == "doubt")
    assert doubted is not None
    branch = await runtime.fork("talk")
    await runtime.send(branch.id, "another way")
    view = await runtime.run(branch.id)
    assert sorted((one.kind, one.ref) for one in view.waits) == [("effect", doubted), ("input", None)]
    return branch.id, doubted


async def test_settling_an_effect_of_the_lineage_wakes_its_branch(conversation: Conversation) -> None:
    async with open_runtime(conversation.target) as runtime:
        branch, doubted = await branch_in_doubt(conversation, runtime)
        await runtime.settle(doubted, "happened", by="ada", because="she has it", result="mailed")
        assert (await runtime.get(branch)).status == "ready"
        view = await runtime.run(branch)
        notes = [one["content"] for one in await lines(runtime, branch) if one.get("about") == "settled"]
        assert notes == ["The call of rest_mail, whose outcome was unknown, is settled. done: mailed"]
        assert [one.kind for one in view.waits] == ["input"]


async def test_a_settled_effect_is_reported_to_a_branch_once(conversation: Conversation) -> None:
    async with open_runtime(conversation.target) as runtime:
        branch, doubted = await branch_in_doubt(conversation, runtime)
        await runtime.send(branch, "and so on")  # it continues, and becomes idle a second time
        view = await runtime.run(branch)
        assert sorted(one.kind for one in view.waits) == ["effect", "input"]
        await runtime.settle(doubted, "abandon", by="ada", because="let it be")
        await runtime.run(branch)
        await runtime.run(branch)
        assert len([one for one in await lines(runtime, branch) if one.get("about") == "settled"]) == 1


class Busy:
    """A model that asks for patience, whatever it was given."""

    name = "busy"

    def __init__(self, clock: ManualClock, patience: float) -> None:
        self.at: list[int] = []
        self._clock = clock
        self._patience = patience

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        self.at.append(self._clock.now())
        raise ModelError("Too many requests.", retry_after=self._patience)


async def kept_waiting(conversation: Conversation, clock: ManualClock, runs: int = 20) -> list[dict[str, Any]]:
    """Wait as long as the model asks; returns the waits that are left."""
    async with open_runtime(conversation.target, clock=clock) as runtime:
        view = await conversation.start(runtime)
    for _ in range(runs):
        if not any(one.kind == "timer" for one in view.waits):
            break
        clock.advance(seconds=61)
        async with open_runtime(conversation.target, clock=clock) as runtime:
            view = await runtime.run("talk")
    return [{"kind": one.kind} | (one.detail or {}) for one in view.waits]


async def test_retry_after_requests_of_a_model_are_limited(conversation: Conversation) -> None:
    clock = ManualClock()
    busy = Busy(clock, 60.0)
    conversation.declare([], model=busy)
    (rest,) = await kept_waiting(conversation, clock)
    assert len(busy.at) == 6
    assert (rest["kind"], rest["about"]) == ("input", "model")
    assert rest["why"] == "The model could not answer: Too many requests. It was asked 6 times."


async def test_a_person_can_have_the_model_called_again(conversation: Conversation) -> None:
    clock = ManualClock()
    busy = Busy(clock, 60.0)
    conversation.declare([], model=busy)
    await kept_waiting(conversation, clock)
    async with open_runtime(conversation.target, clock=clock) as runtime:
        await runtime.send("talk", "try again")
        view = await runtime.run("talk")
    assert (len(busy.at), [one.kind for one in view.waits]) == (7, ["timer"])


async def test_waiting_for_the_model_ends_with_the_time_limit(conversation: Conversation) -> None:
    clock = ManualClock()
    busy = Busy(clock, 60.0)
    conversation.declare([], model=busy, limits={"time": "150s"})
    (rest,) = await kept_waiting(conversation, clock)
    assert len(busy.at) == 3
    assert rest["about"] == "model"
    assert rest["why"].endswith("It asks for a delay of 60 s, and the agent may wait 150 s in all.")


async def test_a_line_from_outside_survives_a_checkpoint(
    conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"role": "note", "about": "performed", "content": "Merged.", "snapshot": "from outside", "merge": "m-1"}

    class Interrupted:
        name = "interrupted"

        async def reply(self, request: Request, on_text: OnText) -> Reply:
            if request.number == 1:
                await runtime.store.write(message.add_note(session.uid, "ada", said, key="merge"))
            return await conversation.model.reply(request, on_text)

    monkeypatch.setattr("perdure.agent.loop.CHECKPOINT_EVERY", 2)  # one is due at every rest
    agent = conversation.declare(["One.", "Two.", "Three."])
    agent.model = Interrupted()
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        for _ in range(2):
            await runtime.send("talk", "continue")
            await runtime.run("talk")
            kept = await runtime.store.read(checkpoint.latest, session.uid, FINGERPRINT)
            with_it, _ = await runtime.store.read(state_of, session)
            assert (kept is not None, with_it.snapshot) == (True, "from outside")


async def test_an_effect_settled_while_a_branch_parks_is_reported(
    conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The effect is settled just before the wait of the branch exists."""
    lie_down = Loop._rest
    settled: list[str] = []

    async def too_late(self: Loop, detail: Any = None) -> None:
        if self._pending and not settled:
            settled.append(self._pending[0].id)
            move = doubt.record_verdict(
                self._pending[0].session_uid, "ada", settled[0], Verdict.ABANDON, because="let it be"
            )
            await runtime.store.write(move)
        await lie_down(self, detail)

    conversation.declare([calls(("rest_mail", {})), "I do not know.", "On my way.", "Now I know."], [failing_mail()])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        branch = await runtime.fork("talk")
        await runtime.send(branch.id, "another way")
        monkeypatch.setattr(Loop, "_rest", too_late)
        view = await runtime.run(branch.id)
        assert [one.kind for one in view.waits] == ["input"]
        assert len([one for one in await lines(runtime, branch.id) if one.get("about") == "settled"]) == 1


async def test_an_earlier_doubt_holds_up_later_changes(conversation: Conversation) -> None:
    done: list[int] = []

    @tool(replay="idempotent")
    def rest_post() -> str:
        done.append(1)
        return "posted"

    conversation.declare(
        [calls(("rest_mail", {})), "I do not know.", calls(("rest_post", {})), "Posted."], [failing_mail(), rest_post]
    )
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        doubted = next(one.ref for one in session.waits if one.kind == "doubt")
        assert doubted is not None
        await runtime.send("talk", "continue")
        assert [one.kind for one in (await runtime.run("talk")).waits] == ["doubt"]
        assert done == []
        await runtime.settle(doubted, "abandon", by="ada", because="let it be")
        await runtime.run("talk")
        assert done == [1]


async def test_answering_the_wait_for_a_message_does_not_loop(conversation: Conversation) -> None:
    conversation.declare(["Hello."])
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        (asked,) = session.waits
        try:
            await runtime.answer(asked.id, "continue", by="ada")
        except PerdureError:
            return  # refusing it is right as well
        running = asyncio.create_task(runtime.run("talk"))
        cancel_after(200, running)
        try:
            assert (await running).status == "waiting"
        finally:
            faults.disarm()


async def test_every_retry_after_of_a_model_is_respected(conversation: Conversation) -> None:
    class Busy:
        name = "busy"

        def __init__(self) -> None:
            self.at: list[int] = []

        async def reply(self, request: Request, on_text: OnText) -> Reply:
            self.at.append(clock.now())
            raise ModelError("Too many requests.", retry_after=60.0)

    clock = ManualClock()
    busy = Busy()
    conversation.declare([], model=busy)
    async with open_runtime(conversation.target, clock=clock) as runtime:
        session = await conversation.start(runtime)
        assert [one.kind for one in session.waits] == ["timer"]
        for _ in range(3):
            clock.advance(seconds=61)
            await runtime.run("talk")
    gaps = [(b - a) / 1e6 for a, b in pairwise(busy.at)]
    assert min(gaps) >= 60
