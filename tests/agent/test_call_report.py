"""The ways in which a call can be interrupted, and exactly what the model is told of each."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.errors import LeaseHeld, PerdureError
from perdure.runtime.queries import SessionView
from perdure.runtime.runtime import Runtime
from perdure.testing.proxy import wait_until
from tests.agent.conftest import open_runtime
from tests.agent.support import interrupted_agent

pytestmark = pytest.mark.databases("sqlite", "postgres")

UNKNOWN = (
    "unknown: it was dispatched, and its outcome is not known yet. "
    "Its outcome is unknown, and nothing but a person can tell."
)

LOST = "[While you were away: the worker that ran this session was lost.]"


@pytest.fixture(autouse=True)
def _log(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_TEST_LOG", str(folder / "log"))


@pytest.fixture(autouse=True)
def work(folder: Path) -> Path:
    (folder / "work").mkdir()
    return folder / "work"


def interrupt(target: str, way: str) -> subprocess.Popen[bytes]:
    """Run the agent in a process of its own until it dies or stops."""
    command = [sys.executable, "-m", "tests.agent.support.interrupted_agent", target]
    child = subprocess.Popen(command, env=os.environ | {"PERDURE_TEST_WAY": way})
    how = os.WEXITED | os.WSTOPPED | os.WNOWAIT
    os.waitid(os.P_PID, child.pid, how)
    return child


async def resumed(runtime: Runtime) -> SessionView:
    while True:
        try:
            view = await runtime.run("dangling")
        except LeaseHeld:
            continue
        if not any(one.kind == "timer" for one in view.waits):
            return view


def outside() -> list[str]:
    return [line.rsplit(" ", 1)[0] for line in interrupted_agent.log().read_text().splitlines()]


@pytest.mark.slow
async def test_a_call_never_dispatched_is_made_and_reported_done(target: str) -> None:
    interrupt(target, "before dispatch").wait()
    assert not interrupted_agent.log().exists()
    _, model = interrupted_agent.agent("before dispatch")
    async with open_runtime(target) as runtime:
        await resumed(runtime)
    assert model.seen[0] == ["done: posted hi", LOST]
    assert outside() == ["post hi"]


@pytest.mark.slow
async def test_a_running_call_is_reported_unknown_then_settled(target: str) -> None:
    interrupt(target, "running").wait()
    _, model = interrupted_agent.agent("running")
    async with open_runtime(target) as runtime:
        view = await resumed(runtime)
        assert model.seen == [[UNKNOWN, LOST], [UNKNOWN, LOST, "done: all quiet"]]
        assert sorted(one.kind for one in view.waits) == ["doubt", "input"]
        effect = next(one.ref for one in view.waits if one.kind == "doubt")
        assert effect is not None
        await runtime.settle(effect, "happened", by="ada", because="it is in her inbox", result="mailed ada")
        await resumed(runtime)
    assert model.seen[-1] == [
        UNKNOWN,
        LOST,
        "done: all quiet",
        f"[While you were away: a person settled an effect that was in doubt ({effect}): happened.]",
        "[The call of send_mail, whose outcome was unknown, is settled. done: mailed ada]",
    ]
    assert outside() == ["mail ada"]


@pytest.mark.slow
async def test_a_call_that_finished_unrecorded_is_found_and_reported_done(target: str) -> None:
    interrupt(target, "finished").wait()
    _, model = interrupted_agent.agent("finished")
    async with open_runtime(target) as runtime:
        await resumed(runtime)
    assert model.seen[0] == ["done: posted hi", LOST]
    assert outside() == ["post hi"]


@pytest.mark.slow
async def test_each_of_several_calls_is_reported_separately(target: str) -> None:
    interrupt(target, "parallel").wait()
    _, model = interrupted_agent.agent("parallel")
    async with open_runtime(target) as runtime:
        view = await resumed(runtime)
        assert model.seen == []  # the third would change something, so it waits until the doubt is settled
        effect = next(one.ref for one in view.waits if one.kind == "doubt")
        assert effect is not None
        await runtime.settle(effect, "abandon", by="ada", because="no one can tell")
        await resumed(runtime)
    assert model.seen[0][0] == "done: posted one"
    assert model.seen[0][1] == ("unknown: it is not known whether it happened; ada abandoned it: no one can tell")
    assert model.seen[0][2] == "done: posted two"
    assert outside() == ["post one", "mail ada", "post two"]


async def test_a_call_that_timed_out_is_reported_unknown(target: str) -> None:
    declared, model = interrupted_agent.agent("timed out")
    async with open_runtime(target) as runtime:
        session = await runtime.start(declared.bind("begin"), id="dangling")
        await runtime.run(session.id)
    assert model.seen[1] == [UNKNOWN]
    assert outside() == ["hang"]


@pytest.mark.slow
async def test_a_call_of_a_stopped_worker_is_unknown_until_its_outcome_arrives(target: str) -> None:
    _, model = interrupted_agent.agent("paused")
    with interrupt(target, "paused") as child:
        async with open_runtime(target) as runtime:
            try:
                view = await resumed(runtime)
                assert model.seen[0][0] == UNKNOWN
                assert sorted(one.kind for one in view.waits) == ["doubt", "input"]
            finally:
                os.kill(child.pid, signal.SIGCONT)
            child.wait()
            await resumed(runtime)
    assert model.seen[-1][-1] == "[The call of send_mail, whose outcome was unknown, is settled. done: mailed ada]"
    assert outside() == ["mail ada"]


@pytest.mark.slow
async def test_a_command_that_outlived_its_worker_is_reported_done(target: str, work: Path) -> None:
    os.mkfifo(work / "fifo")
    command = [sys.executable, "-m", "tests.agent.support.interrupted_agent", target]
    with subprocess.Popen(command, env=os.environ | {"PERDURE_TEST_WAY": "child alive"}) as child:
        wait_until((work / "begun").exists, "the command has begun")
        child.kill()
    _, model = interrupted_agent.agent("child alive")
    async with open_runtime(target) as runtime:
        running = asyncio.create_task(resumed(runtime))
        await asyncio.to_thread((work / "fifo").write_text, "you\n")
        await running
    assert model.seen[0] == [
        "done (from command:echo begun >> begun; read line < fifo; echo heard $line):\nexit 0\nheard you",
        LOST,
    ]
    assert (work / "begun").read_text() == "begun\n"


@pytest.mark.slow
async def test_a_wrong_verdict_is_refused_and_changes_nothing(target: str) -> None:
    interrupt(target, "running").wait()
    interrupted_agent.agent("running")
    async with open_runtime(target) as runtime:
        view = await resumed(runtime)
        effect = next(one.ref for one in view.waits if one.kind == "doubt")
        assert effect is not None
        with pytest.raises(PerdureError):
            await runtime.settle(effect, "perhaps", by="ada", because="x")  # type: ignore[arg-type]
        assert (await runtime.get("dangling")).waits == view.waits
