"""Tools in a process of their own: a time limit that stops, a death that ends the act, and nothing left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure import ConfigError, NotDone, Session, ToolError, program, tool
from perdure.runtime.definitions.tool import TOOLS
from tests.runtime.support import isolated_app as app
from tests.runtime.support.scripted_world import World

BOTH = pytest.mark.databases("sqlite", "postgres")
MEMORY = pytest.mark.databases("memory")


async def until(condition: Any, limit: float = 180) -> None:
    async with asyncio.timeout(limit):
        while not condition():
            await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@MEMORY
async def test_the_function_runs_in_a_process_and_a_group_of_its_own(world: World) -> None:
    @program
    async def acts(s: Session) -> list[int]:
        pid, group, n = await s.do(app.isolated_pid, n=3)
        return [pid, group, n, await s.do(app.isolated_async, n=3)]

    view = await world.run(acts.bind())
    assert view.error is None
    pid, group, n, after = view.result
    assert (pid != os.getpid(), group == pid, n, after) == (True, True, 3, 4)
    assert (await world.effects())[0].reference == f"process {pid}"


@BOTH
async def test_a_time_limit_kills_the_process_and_the_act_has_ended(world: World, tmp_path: Path) -> None:
    @program
    async def acts(s: Session) -> int:
        return await s.do(app.isolated_hangs, folder=str(tmp_path))

    view = await world.run(acts.bind())
    effect = await world.effect()
    (attempt,) = await world.attempts(effect)
    assert ([one.kind for one in view.waits], effect.reference) == (["doubt"], "order-7")
    assert (attempt.outcome, attempt.error["type"]) == ("unknown", "TimeoutError")
    assert attempt.ended_at is not None
    assert not is_alive(int((tmp_path / "pid-1").read_text()))


@MEMORY
@pytest.mark.parametrize(
    ("how", "outcome", "raised"),
    [
        ("exit", "unknown", None), ("sys.exit", "unknown", None), ("raise", "unknown", None),
        ("refused", "failed", NotDone), ("proof", "failed", NotDone), ("wrong type", "acknowledged", ToolError),
    ],
)  # fmt: skip
async def test_every_end_of_the_process_is_reported(
    world: World, how: str, outcome: str, raised: type[Exception] | None
) -> None:
    @program
    async def acts(s: Session) -> str:
        try:
            await s.do(app.isolated_ends, how=how)
        except (NotDone, ToolError) as error:
            return type(error).__name__
        return "no error"

    view = await world.run(acts.bind())
    assert await world.outcomes(await world.effect()) == [outcome]
    assert view.result == (raised.__name__ if raised else None)
    assert [one.kind for one in view.waits] == ([] if raised else ["doubt"])


@MEMORY
async def test_a_tool_that_the_process_cannot_find_has_not_begun(world: World) -> None:
    @tool(name="isolated_gone")
    def gone() -> int:
        return 1

    gone.isolate = app.isolated_pid.isolate
    gone.function.__module__, gone.function.__qualname__ = app.__name__, "gone"

    @program
    async def acts(s: Session) -> str:
        try:
            await s.do(gone)
        except NotDone as error:
            return error.message
        return "no error"

    assert "does not define the tool isolated_gone" in (await world.run(acts.bind())).result


def test_a_tool_that_cannot_be_imported_is_refused_at_the_declaration() -> None:
    def local() -> int:
        return 1

    with pytest.raises(ConfigError, match="another process could not import it"):
        tool(isolate="process")(local)
    with pytest.raises(ConfigError, match="isolate cannot be 'proces'") as wrong:
        tool(isolate="proces")(local)  # type: ignore[call-overload]
    assert 'Did you mean "process"?' in wrong.value.hint


@BOTH
@pytest.mark.slow
async def test_the_process_dies_with_its_worker(world: World, tmp_path: Path) -> None:
    code = "import sys, perdure; from tests.runtime.support.isolated_app import *; "
    code += "perdure.run(isolated_run.bind(folder=sys.argv[2]), id='s', store=sys.argv[1])"
    worker = subprocess.Popen([sys.executable, "-c", code, world.target, str(tmp_path)])
    try:
        await until((tmp_path / "pid").exists)
        child = int((tmp_path / "pid").read_text())
        assert is_alive(child)
        open_files = [os.readlink(one) for one in Path(f"/proc/{child}/fd").iterdir()]
        assert [one for one in open_files if Path(one).name.startswith(".w-")] != []  # the worker's presence lock
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    await until(lambda: not is_alive(child))
    assert "isolated_waits" in TOOLS
    world.rt.close()
    world.rt = world.open()
    world.clock.advance(seconds=60)
    view = await world.again()
    (attempt,) = await world.attempts(await world.effect())
    assert ([one.kind for one in view.waits], attempt.ended_at is not None) == (["doubt"], True)


@MEMORY
async def test_processes_started_by_a_crashed_tool_are_killed(world: World, tmp_path: Path) -> None:
    @program
    async def acts(s: Session) -> int:
        return await s.do(app.isolated_leaves, folder=str(tmp_path), how="crash")

    view = await world.run(acts.bind())
    assert [one.kind for one in view.waits] == ["doubt"]
    await until(lambda: not is_alive(int((tmp_path / "left").read_text())))


@MEMORY
async def test_a_process_left_behind_does_not_hold_up_the_answer(world: World, tmp_path: Path) -> None:
    @program
    async def acts(s: Session) -> int:
        return await s.do(app.isolated_leaves, folder=str(tmp_path), how="return")

    view = await world.run(acts.bind())
    left = int((tmp_path / "left").read_text())
    assert (view.result, is_alive(left)) == (left, True)
    (tmp_path / "over").touch()
    await until(lambda: not is_alive(left))


@MEMORY
async def test_a_process_that_could_not_be_started_has_done_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise BlockingIOError("Resource temporarily unavailable")

    @program
    async def acts(s: Session) -> str:
        try:
            await s.do(app.isolated_ends, how="return")
        except NotDone as error:
            return error.message
        return "no error"

    monkeypatch.setattr(subprocess, "Popen", refuse)
    assert "could not be started" in (await world.run(acts.bind())).result
