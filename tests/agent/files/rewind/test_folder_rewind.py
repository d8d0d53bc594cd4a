"""A rewind in place is an effect of its own session: recorded, reported to the agent, and taken back by another one."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

import perdure
from perdure import faults
from perdure.agent.files.rewind.folder_rewind import folder_lease, rewind_files
from perdure.clock import SECOND
from perdure.control.branches.files import diff
from perdure.control.branches.in_place_rewind import finish_rewind, plan_rewind, rewind_in_place
from perdure.control.branches.prune import prune
from perdure.errors import ConfigError, LeaseHeld, NotFound
from perdure.runtime.run.session_lease import acquire
from perdure.store.moves import lease
from perdure.store.moves import session as sessions
from tests.agent.conftest import open_runtime
from tests.agent.files.test_branch import own, repository, write
from tests.agent.support.conversation import Conversation, calls, lines
from tests.forked import fork

__all__ = ["repository"]
pytestmark = pytest.mark.databases("sqlite", "postgres")

SCRIPT = [calls(write("b.txt", "b\n")), calls(write("deep/c.txt", "c\n")), "End.", "I know."]


async def first_write(runtime: perdure.Runtime) -> int:
    events = [one async for one in runtime.events("talk") if one.kind == "message"]
    return next(one.number for one in events if one.body["role"] == "tool")


@pytest.mark.slow
async def test_files_are_put_back_and_the_rewind_can_be_taken_back(
    conversation: Conversation, repository: Path, tmp_path: Path
) -> None:
    conversation.declare(SCRIPT, ["write_file"])
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await conversation.start(runtime, repository=repository)
        (repository / "mine.txt").write_text("mine\n")
        plan = await plan_rewind(runtime, "talk", to=await first_write(runtime))
        assert (plan.added, plan.changed, plan.removed) == ([], [], ["deep/c.txt", "mine.txt"])
        assert (repository / "mine.txt").exists()
        made = await rewind_in_place(runtime, plan)
        assert (made.result.removed, made.result.refused) == (["deep/c.txt", "mine.txt"], [])
        assert sorted(one.name for one in repository.iterdir()) == [".git", "a.txt", "b.txt"]
        (effect,) = [one async for one in runtime.effects(tool="rewind_files")]
        assert (effect.state, effect.session_uid) == ("acknowledged", (await runtime.get("talk.rewind-1")).uid)
        back = await rewind_in_place(runtime, await plan_rewind(runtime, "talk", snapshot=plan.before))
        assert back.result.written == ["deep/c.txt", "mine.txt"]
        assert (repository / "mine.txt").read_text() == "mine\n"
        again = await plan_rewind(runtime, "talk", snapshot=plan.before)
        assert again.is_empty
        assert (await rewind_in_place(runtime, again)).by_session is None


@pytest.mark.slow
@pytest.mark.databases("sqlite")
async def test_a_rewind_is_possible_after_an_earlier_one_was_removed(
    conversation: Conversation, repository: Path, tmp_path: Path
) -> None:
    conversation.declare(SCRIPT, ["write_file"])
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await conversation.start(runtime, repository=repository)
        plan = await plan_rewind(runtime, "talk", to=await first_write(runtime))
        await rewind_in_place(runtime, plan)
        await runtime.remove("talk.rewind-1", because="a test")
        back = await rewind_in_place(runtime, await plan_rewind(runtime, "talk", snapshot=plan.before))
        assert (back.by_session, back.result.written) == ("talk.rewind-2", ["deep/c.txt"])


@pytest.mark.slow
async def test_the_log_and_the_agent_are_told(conversation: Conversation, repository: Path, tmp_path: Path) -> None:
    conversation.declare(SCRIPT, ["write_file"])
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await conversation.start(runtime, repository=repository)
        at = await first_write(runtime)
        (repository / "mine.txt").write_text("mine\n")
        await rewind_in_place(runtime, await plan_rewind(runtime, "talk", to=at))
        assert (await runtime.get("talk")).status == "waiting"  # it was not woken
        (told,) = [one for one in await lines(runtime) if one.get("rewind")]
        changed = "removed deep/c.txt, removed mine.txt"
        assert told["content"] == f"The user put the files of this folder back to event {at}: {changed}."
        assert "c.txt" not in (await diff(runtime, "talk")).text
        await prune(runtime, grace=0)
        assert (await plan_rewind(runtime, "talk", snapshot=told["before"])).added == ["deep/c.txt", "mine.txt"]
        await runtime.send("talk", "continue")
        await runtime.run("talk")
        assert [turn.text for turn in conversation.turns_shown() if "back to event" in turn.text]


@pytest.mark.slow
@pytest.mark.parametrize("point", ["act.begun", "file.renamed", "act.after"])
def test_a_killed_rewind_is_finished_by_the_next_one(
    conversation: Conversation, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    monkeypatch.setattr(rewind_files, "inflight", 20_000)
    conversation.declare(SCRIPT, ["write_file"])

    async def begin() -> int:
        async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
            await conversation.start(runtime, repository=repository)
            return await first_write(runtime)

    at = asyncio.run(begin())
    (repository / "a.txt").write_text("by hand\n")

    async def rewind() -> None:
        async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
            plan = await plan_rewind(runtime, "talk", to=at)
            faults.arm(lambda name: os.kill(os.getpid(), signal.SIGKILL) if name == point else None)
            await rewind_in_place(runtime, plan)

    _, ended = os.waitpid(fork(lambda: asyncio.run(rewind())), 0)
    assert os.WTERMSIG(ended) == signal.SIGKILL

    async def repeat() -> None:
        async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
            assert (await plan_rewind(runtime, "talk", to=at)).unfinished == "talk.rewind-1"
            done = await finish_rewind(runtime, "talk")
            assert done is not None
            assert (done.result.written, done.result.removed) == (["a.txt"], ["deep/c.txt"])
            assert (await plan_rewind(runtime, "talk", to=at)).is_empty
            assert await finish_rewind(runtime, "talk") is None
            assert len([one for one in await lines(runtime) if one.get("rewind")]) == 1

    asyncio.run(repeat())
    assert ((repository / "a.txt").read_text(), (repository / "deep").exists()) == ("one\n", False)
    assert not list(repository.glob("**/.perdure-*"))


@pytest.mark.slow
async def test_a_busy_folder_and_wrong_targets_are_refused(
    conversation: Conversation, repository: Path, tmp_path: Path
) -> None:
    conversation.declare(SCRIPT, ["write_file"])
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await conversation.start(runtime, repository=repository)
        at = await first_write(runtime)
        for wrong in ({}, {"to": 1, "snapshot": "ab"}, {"to": 999}):
            with pytest.raises(ConfigError):
                await plan_rewind(runtime, "talk", **wrong)
        for missing in ({"snapshot": "0" * 40}, {"snapshot": "HEAD"}, {"to": 1}):
            with pytest.raises(NotFound):
                await plan_rewind(runtime, "talk", **missing)
        plan = await plan_rewind(runtime, "talk", to=at)
        await runtime.send("talk", "more")
        await acquire(runtime, await runtime.store.read(sessions.find, "talk"))
        with pytest.raises(LeaseHeld, match="nothing was changed"):
            await rewind_in_place(runtime, plan)
        assert (repository / "deep" / "c.txt").exists()


@pytest.mark.slow
async def test_the_store_inside_the_folder_is_never_replaced(conversation: Conversation, repository: Path) -> None:
    conversation.declare(SCRIPT, ["write_file"])
    async with open_runtime(str(repository / "perdure.db"), artifacts=repository / "kept") as runtime:
        await conversation.start(runtime, repository=repository)
        plan = await plan_rewind(runtime, "talk", to=await first_write(runtime))
        assert {one.path.partition("-")[0] for one in plan.kept} >= {"perdure.db"}
        made = await rewind_in_place(runtime, plan)
        assert made.result.removed == ["deep/c.txt"]
        assert (await runtime.get("talk")).status == "waiting"


@pytest.mark.slow
async def test_two_rewinds_of_one_folder_do_not_mix(
    conversation: Conversation, repository: Path, tmp_path: Path
) -> None:
    conversation.declare(SCRIPT, ["write_file"])
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await conversation.start(runtime, repository=repository)
        at = await first_write(runtime)
        plan = await plan_rewind(runtime, "talk", to=at)
        resource = f"folder:{folder_lease(str(repository))}"
        move = lease.acquire_named(resource, holder="another", nonce="n", ttl=600 * SECOND)
        held = await runtime.store.write(move)
        rewinding = asyncio.ensure_future(rewind_in_place(runtime, plan))
        async with asyncio.timeout(60):
            while not [one async for one in runtime.sessions(waiting_for="lease")]:
                await asyncio.sleep(0.01)
        assert (repository / "deep" / "c.txt").exists()
        await runtime.store.write(lease.release_named(held))
        assert (await rewinding).result.removed == ["deep/c.txt"]


@pytest.mark.slow
@pytest.mark.databases("sqlite")
async def test_a_removed_rewind_session_does_not_stop_the_next_one(
    conversation: Conversation, repository: Path, tmp_path: Path
) -> None:
    conversation.declare(SCRIPT, ["write_file"])
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await conversation.start(runtime, repository=repository)
        at = await first_write(runtime)
        for number in (1, 2, 3):
            (repository / "a.txt").write_text(f"{number}\n")
            made = await rewind_in_place(runtime, await plan_rewind(runtime, "talk", to=at))
            assert (made.by_session, made.result.written) == (f"talk.rewind-{number}", ["a.txt"])
            if number == 1:
                await runtime.remove("talk.rewind-1", because="tidy", by="ada")
