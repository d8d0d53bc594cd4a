"""At rest: one wait for the next message, one for each thing that is still to come, and none that is left over."""

from __future__ import annotations

from typing import Any

import pytest

import perdure
from perdure import tool
from perdure.agent.history.state_reader import FINGERPRINT, state_of
from perdure.agent.loop import Loop
from perdure.agent.model import OnText, Reply, Request
from perdure.domain.effect import Verdict
from perdure.domain.wait import Wait
from perdure.errors import ModelError
from perdure.store.moves import checkpoint, doubt, message, wait
from perdure.testing import ManualClock
from tests.agent import dangling
from tests.agent.conftest import opened
from tests.agent.talk import Talk, calls, lines
from tests.agent.test_truth import _log, dangle, resumed, work  # noqa: F401 - fixtures of an agent that is killed

pytestmark = pytest.mark.databases("sqlite", "postgres")


async def still_open(runtime: perdure.Runtime, uid: str) -> list[Wait]:
    return await runtime.store.read(wait.open_of_session, uid)


@pytest.mark.slow
async def test_a_kill_before_it_is_parked_leaves_one_wait_for_a_message(target: str) -> None:
    dangle(target, "resting").wait()
    _, model = dangling.agent("resting")
    async with opened(target) as runtime:
        (left,) = (await runtime.get("dangling")).waits
        view = await resumed(runtime)
        assert [one.kind for one in view.waits] == ["input"]
        assert model.told == []  # it had answered, and is not asked again
        await runtime.send("dangling", "go on")
        view = await resumed(runtime)
        (now,) = await still_open(runtime, view.uid)
        assert (now.kind, now.id == left.id) == ("input", False)


def unsure() -> Any:
    @tool(inflight="1ms", name="rest_mail")
    def mail() -> str:
        """Send a mail; nobody knows what came of it."""
        raise RuntimeError("the line was cut")

    return mail


async def test_what_is_settled_while_it_rests_leaves_no_second_wait(talk: Talk) -> None:
    talk.declare([calls(("rest_mail", {})), "I do not know.", "Now I know."], [unsure()])
    async with opened(talk.target) as runtime:
        session = await talk.start(runtime)
        doubted = next(one.ref for one in session.waits if one.kind == "doubt")
        assert doubted is not None
        await runtime.settle(doubted, "happened", by="ada", because="she has it", result="mailed")
        view = await runtime.run("talk")
        assert [one.kind for one in view.waits] == ["input"]


async def test_a_rest_that_is_over_is_closed_before_the_model_is_asked(talk: Talk) -> None:
    seen: list[list[str]] = []

    class Looking:
        name = "looking"

        async def reply(self, request: Request, on_text: OnText) -> Reply:
            seen.append([str(one.kind) for one in await still_open(runtime, session)])
            return await talk.model.reply(request, on_text)

    agent = talk.declare([calls(("rest_mail", {})), "I do not know.", "Now I know."], [unsure()])
    agent.model = Looking()
    session = ""
    async with opened(talk.target) as runtime:
        view = await talk.start(runtime)
        session = view.uid
        doubted = next(one.ref for one in view.waits if one.kind == "doubt")
        assert doubted is not None
        await runtime.settle(doubted, "happened", by="ada", because="she has it", result="mailed")
        await runtime.run("talk")
    assert seen[-1] == []


async def unsettled_branch(talk: Talk, runtime: perdure.Runtime) -> tuple[str, str]:
    """A branch at rest that was told that an effect of its line is unknown; its id, and the effect's."""
    talk.declare([calls(("rest_mail", {})), "I do not know.", "On my way.", "Now I know."], [unsure()])
    session = await talk.start(runtime)
    doubted = next(one.ref for one in session.waits if one.kind == "doubt")
    assert doubted is not None
    branch = await runtime.fork("talk")
    await runtime.send(branch.id, "another way")
    view = await runtime.run(branch.id)
    assert sorted((one.kind, one.ref) for one in view.waits) == [("effect", doubted), ("input", None)]
    return branch.id, doubted


async def test_a_branch_is_woken_and_told_when_an_effect_of_its_line_is_settled(talk: Talk) -> None:
    async with opened(talk.target) as runtime:
        branch, doubted = await unsettled_branch(talk, runtime)
        await runtime.settle(doubted, "happened", by="ada", because="she has it", result="mailed")
        assert (await runtime.get(branch)).status == "ready"
        view = await runtime.run(branch)
        notes = [one["content"] for one in await lines(runtime, branch) if one.get("about") == "settled"]
        assert notes == ["The call of rest_mail, whose outcome was unknown, is settled. done: mailed"]
        assert [one.kind for one in view.waits] == ["input"]


async def test_a_branch_that_was_told_is_not_told_again(talk: Talk) -> None:
    async with opened(talk.target) as runtime:
        branch, doubted = await unsettled_branch(talk, runtime)
        await runtime.send(branch, "and so on")  # it goes on, and comes to rest a second time
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


async def kept_waiting(talk: Talk, clock: ManualClock, runs: int = 20) -> list[dict[str, Any]]:
    """Give the model its patience until nobody waits for a time any more; what it then waits for."""
    async with opened(talk.target, clock=clock) as runtime:
        view = await talk.start(runtime)
    for _ in range(runs):
        if not any(one.kind == "timer" for one in view.waits):
            break
        clock.advance(seconds=61)
        async with opened(talk.target, clock=clock) as runtime:
            view = await runtime.run("talk")
    return [{"kind": one.kind} | (one.detail or {}) for one in view.waits]


async def test_a_model_that_asks_for_patience_again_and_again_is_not_asked_for_ever(talk: Talk) -> None:
    clock = ManualClock()
    busy = Busy(clock, 60.0)
    talk.declare([], model=busy)
    (rest,) = await kept_waiting(talk, clock)
    assert len(busy.at) == 6
    assert (rest["kind"], rest["about"]) == ("input", "model")
    assert rest["why"] == "The model could not answer: Too many requests. It was asked 6 times."


async def test_a_model_is_asked_anew_when_a_person_says_so(talk: Talk) -> None:
    clock = ManualClock()
    busy = Busy(clock, 60.0)
    talk.declare([], model=busy)
    await kept_waiting(talk, clock)
    async with opened(talk.target, clock=clock) as runtime:
        await runtime.send("talk", "try again")
        view = await runtime.run("talk")
    assert (len(busy.at), [one.kind for one in view.waits]) == (7, ["timer"])


async def test_patience_ends_with_the_time_that_an_agent_may_take(talk: Talk) -> None:
    clock = ManualClock()
    busy = Busy(clock, 60.0)
    talk.declare([], model=busy, limits={"time": "150s"})
    (rest,) = await kept_waiting(talk, clock)
    assert len(busy.at) == 3
    assert rest["about"] == "model"
    assert rest["why"].endswith("It asks for a delay of 60 s, and the agent may wait 150 s in all.")


async def test_a_line_from_outside_is_not_lost_in_a_checkpoint(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"role": "note", "about": "performed", "content": "Merged.", "snapshot": "from outside", "merge": "m-1"}

    class Interrupted:
        name = "interrupted"

        async def reply(self, request: Request, on_text: OnText) -> Reply:
            if request.number == 1:
                await runtime.store.write(message.add_note(session.uid, "ada", said, key="merge"))
            return await talk.model.reply(request, on_text)

    monkeypatch.setattr("perdure.agent.loop.CHECKPOINT_EVERY", 2)  # one is due at every rest
    agent = talk.declare(["One.", "Two.", "Three."])
    agent.model = Interrupted()
    async with opened(talk.target) as runtime:
        session = await talk.start(runtime)
        for _ in range(2):
            await runtime.send("talk", "go on")
            await runtime.run("talk")
            kept = await runtime.store.read(checkpoint.latest, session.uid, FINGERPRINT)
            with_it, _ = await runtime.store.read(state_of, session)
            assert (kept is not None, with_it.snapshot) == (True, "from outside")


async def test_what_is_settled_as_a_branch_lies_down_is_told_at_once(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever settled it looked for somebody to tell before the branch's wait was there."""
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

    talk.declare([calls(("rest_mail", {})), "I do not know.", "On my way.", "Now I know."], [unsure()])
    async with opened(talk.target) as runtime:
        await talk.start(runtime)
        branch = await runtime.fork("talk")
        await runtime.send(branch.id, "another way")
        monkeypatch.setattr(Loop, "_rest", too_late)
        view = await runtime.run(branch.id)
        assert [one.kind for one in view.waits] == ["input"]
        assert len([one for one in await lines(runtime, branch.id) if one.get("about") == "settled"]) == 1


async def test_what_was_in_doubt_before_this_run_holds_up_what_would_change_something(talk: Talk) -> None:
    done: list[int] = []

    @tool(replay="idempotent")
    def rest_post() -> str:
        done.append(1)
        return "posted"

    talk.declare(
        [calls(("rest_mail", {})), "I do not know.", calls(("rest_post", {})), "Posted."], [unsure(), rest_post]
    )
    async with opened(talk.target) as runtime:
        session = await talk.start(runtime)
        doubted = next(one.ref for one in session.waits if one.kind == "doubt")
        assert doubted is not None
        await runtime.send("talk", "go on")
        assert [one.kind for one in (await runtime.run("talk")).waits] == ["doubt"]
        assert done == []
        await runtime.settle(doubted, "abandon", by="ada", because="let it be")
        await runtime.run("talk")
        assert done == [1]
