"""A session that spins, sticks or ends where it should wait: what a second reader of the agent core found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from perdure import Agent, faults, tool
from perdure.agent.model import OnText, Reply, Request, Usage
from perdure.agent.settings import Settings
from perdure.errors import ModelError, PerdureError
from perdure.runtime.definitions.tool import TOOLS
from perdure.testing import ManualClock
from tests.agent.conftest import opened
from tests.agent.talk import Talk, calls, lines

pytestmark = pytest.mark.databases("sqlite", "postgres")
ENOUGH = 12  # runs of one session without anything new to do


class Spinning(Exception):
    """The program was begun again and again, and nothing had changed."""


def counted(agent: Agent) -> list[int]:
    """Count how often the agent is begun; too often is a loop that never yields its worker."""
    runs: list[int] = []
    ask: Callable[[dict[str, Any]], Settings] = agent.settings

    def settings(arguments: dict[str, Any]) -> Settings:
        runs.append(1)
        if len(runs) > ENOUGH:
            raise Spinning
        return ask(arguments)

    agent.settings = settings  # type: ignore[method-assign]
    return runs


def stopped_after(most: int, running: asyncio.Task[Any]) -> None:
    """Cancel what commits more often than anything that ends can."""
    here, seen = asyncio.get_running_loop(), []

    def moment(name: str) -> None:
        seen.append(name)
        if seen.count("commit.after") > most:
            faults.disarm()
            here.call_soon_threadsafe(running.cancel)

    faults.arm(moment)


def unsure(name: str = "mail") -> Any:
    @tool(inflight="1ms", name=name)
    def mail() -> str:
        """Send a mail; nobody knows what came of it."""
        raise RuntimeError("the line was cut")

    return mail


async def test_a_session_that_runs_once_waits_for_its_doubt_before_it_ends(talk: Talk) -> None:
    agent = talk.declare([calls(("mail", {})), "Done."], [unsure()])
    counted(agent)
    async with opened(talk.target) as runtime:
        session = await talk.start(runtime, once=True)
        assert [one.kind for one in session.waits] == ["doubt"]


async def test_a_limit_in_a_session_that_runs_once_waits_for_its_doubt_before_it_fails(talk: Talk) -> None:
    agent = talk.declare([calls(("mail", {})), "Done."], [unsure()], limits={"turns": 1})
    counted(agent)
    async with opened(talk.target) as runtime:
        session = await talk.start(runtime, once=True)
        assert [one.kind for one in session.waits] == ["doubt"]


async def test_a_request_to_stop_waits_for_a_doubt(talk: Talk) -> None:
    agent = talk.declare([calls(("mail", {})), "Done."], [unsure()])
    async with opened(talk.target) as runtime:
        session = await talk.start(runtime)
        assert sorted(one.kind for one in session.waits) == ["doubt", "input"]
        await runtime.cancel("talk")
        counted(agent)
        session = await runtime.run("talk")
        assert [one.kind for one in session.waits if one.kind == "doubt"]


async def test_what_a_person_says_did_not_happen_is_done_and_told(talk: Talk) -> None:
    tries: list[int] = []

    @tool(inflight="1ms", name="mail")
    def mail() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise RuntimeError("the line was cut")
        return "mailed"

    talk.declare([calls(("mail", {})), "I do not know.", "Now I know."], [mail])
    async with opened(talk.target) as runtime:
        session = await talk.start(runtime)
        effect = next(one.ref for one in session.waits if one.kind == "doubt")
        assert effect is not None
        await runtime.settle(effect, "absent", by="ada", because="she has no mail")
        await runtime.run("talk")
        states = [one.state async for one in runtime.effects(session="talk", tool="mail")]
        assert states != ["planned"], "nobody drives it, and the model is never told"
        assert [line for line in await lines(runtime) if line.get("about") == "settled"]


async def test_an_answer_to_the_wait_for_a_message_does_not_make_it_spin(talk: Talk) -> None:
    talk.declare(["Hello."])
    async with opened(talk.target) as runtime:
        session = await talk.start(runtime)
        (asked,) = session.waits
        try:
            await runtime.answer(asked.id, "go on", by="ada")
        except PerdureError:
            return  # refusing it is right as well
        running = asyncio.create_task(runtime.run("talk"))
        stopped_after(200, running)
        try:
            assert (await running).status == "waiting"
        finally:
            faults.disarm()


async def test_an_order_in_doubt_waits_for_a_person(talk: Talk, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    agent = talk.declare(["Hello."])
    async with opened(talk.target) as runtime:
        await talk.start(runtime)
        given = {"folder": str(tmp_path), "home": str(tmp_path / "file" / "x"), "base": "a", "ours": "b", "theirs": "c"}
        await runtime.send("talk", {"perform": {"tool": "merge_branch", "arguments": given}})
        counted(agent)
        session = await runtime.run("talk")
        assert session.status == "waiting"


async def test_an_undo_of_which_nobody_knows_is_a_doubt_and_no_crash(talk: Talk) -> None:
    @tool(replay="idempotent", name="book")
    def book() -> str:
        return "booked"

    @book.undo
    def _(result: str | None) -> None:
        raise RuntimeError("the line was cut")

    talk.declare([calls(("book", {})), "Booked.", "Yes."], [book])
    async with opened(talk.target) as runtime:
        await talk.start(runtime)
        (effect,) = [one async for one in runtime.effects(session="talk", tool="book")]
        await runtime.undo(effect.id, by="ada", because="wrong night")
        await runtime.send("talk", "go on")
        session = await runtime.run("talk")
        assert session.status == "waiting"


@pytest.mark.databases("memory")
async def test_a_branch_waits_for_a_worker_that_has_a_place_for_its_folder(talk: Talk, tmp_path: Path) -> None:
    talk.declare(["Hello.", "Yes."])
    async with opened(talk.target) as runtime:
        await talk.start(runtime, repository=tmp_path)
        branch = await runtime.fork("talk")
        await runtime.send(branch.id, "go on")
        view = await runtime.run(branch.id)
        assert view.status != "failed"


async def test_a_recorded_call_whose_tool_takes_something_else_now_is_told_and_does_not_end_it(talk: Talk) -> None:
    @tool(name="push")
    def push(branch: str) -> str:
        return "pushed"

    talk.declare([calls(("push", {"branch": "main"})), "Pushed."], [push], policy=lambda _: "ask")
    async with opened(talk.target) as runtime:
        session = await talk.start(runtime)
        (asked,) = session.waits

        del TOOLS["push"]

        @tool(name="push")
        def push2(ref: int) -> str:
            return "pushed"

        agent = talk.declare([calls(("push", {"branch": "main"})), "Pushed."], [push2], policy=lambda _: "ask")
        await runtime.approve(asked.id, by="ada", because="yes")
        counted(agent)
        view = await runtime.run("talk")
        assert [one.kind for one in view.waits] == ["input"]  # it never began, so nobody needs to be asked


async def test_a_model_that_asks_for_patience_is_given_it_every_time(talk: Talk) -> None:
    class Busy:
        name = "busy"

        def __init__(self) -> None:
            self.at: list[int] = []

        async def reply(self, request: Request, on_text: OnText) -> Reply:
            self.at.append(clock.now())
            raise ModelError("Too many requests.", retry_after=60.0)

    clock = ManualClock()
    busy = Busy()
    talk.declare([], model=busy)
    async with opened(talk.target, clock=clock) as runtime:
        session = await talk.start(runtime)
        assert [one.kind for one in session.waits] == ["timer"]
        for _ in range(3):
            clock.advance(seconds=61)
            await runtime.run("talk")
    gaps = [(b - a) / 1e6 for a, b in pairwise(busy.at)]
    assert min(gaps) >= 60


@pytest.mark.databases("memory")
@pytest.mark.parametrize("odd", ["model", "extra", "usage", "stop", "negative"])
async def test_an_odd_reply_of_a_server_does_not_end_the_session(talk: Talk, odd: str) -> None:
    every: dict[str, dict[str, Any]] = {
        "model": {"model": "\ud800"},
        "extra": {"extra": {"signature": "\ud800"}},
        "usage": {"usage": Usage(2**70, 0, 0)},
        "stop": {"stop": "\ud800"},
        "negative": {"usage": Usage(-5, -5, -5)},
    }
    given = every[odd]

    class Odd:
        name = "odd"

        async def reply(self, request: Request, on_text: OnText) -> Reply:
            return Reply("Hello.", **given)

    talk.declare([], model=Odd())
    async with opened(talk.target) as runtime:
        session = await talk.start(runtime)
        assert session.status == "waiting", session.error


@pytest.mark.databases("memory")
async def test_a_model_that_cancels_itself_is_an_error_and_not_the_end(talk: Talk) -> None:
    class Cancels:
        name = "cancels"

        async def reply(self, request: Request, on_text: OnText) -> Reply:
            raise asyncio.CancelledError

    talk.declare([], model=Cancels())
    async with opened(talk.target) as runtime:
        session = await talk.start(runtime)
        assert session.status == "waiting", session.error


ODD = [
    ("read_file", {"path": "a\0b"}),
    ("read_file", {"path": 5}),
    ("read_file", {}),
    ("edit_file", {"path": ["a"]}),
    ("edit_file", {"path": "a\0b", "old": "x", "new": "y"}),
    ("write_file", {"path": "a\0b", "content": "x"}),
    ("write_file", {"path": "", "content": "x"}),
    ("run_command", {"command": 5}),
    ("run_command", {"command": "a\0b"}),
    ("run_command", {}),
    ("git_commit", {"message": "a\0b"}),
    ("git_branch", {"name": "a\0b"}),
    ("git_push", {"remote": "a\0b"}),
    ("list_files", {"path": "a\0b"}),
    ("search_files", {"pattern": "("}),
    ("search_files", {"pattern": "\0"}),
    ("fetch_url", {"url": "http://[::1"}),
    ("fetch_url", {"url": "http://a\0b"}),
    ("plan", {"tasks": [{"title": "x" * 10000}]}),
    ("remember", {"key": "\0", "value": "v"}),
    ("remember", {"key": "k" * 10000, "value": "v"}),
    ("recall", {"key": ""}),
    ("decide", {"decision": "", "because": ""}),
    ("save_artifact", {"name": "\0", "content": "x"}),
    ("ask_person", {"question": "q\0", "choices": []}),
    ("delegate", {"task": ""}),
    ("recall", {"key": "\0"}),
    ("decide", {"decision": "a\0", "because": "b\0"}),
    ("plan", {"tasks": [{"title": "\0"}]}),
]


@pytest.mark.slow
@pytest.mark.databases("memory")
@pytest.mark.parametrize("call", ODD, ids=lambda one: f"{one[0]}-{str(one[1])[:24]!r}")
async def test_odd_arguments_of_a_shipped_tool_end_nothing(talk: Talk, call: Any, tmp_path: Path) -> None:
    counted(talk.declare([calls(call), "End."], [call[0]], unsandboxed=True))
    async with opened(talk.target) as runtime:
        session = await talk.start(runtime, repository=tmp_path)
        assert session.status == "waiting", session.error
        if call[0] not in ("ask_person", "delegate"):
            assert talk.told(), session.waits
