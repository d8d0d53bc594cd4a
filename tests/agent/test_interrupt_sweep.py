"""A process that is killed between the request to interrupt and the stop: the next run stops the turn, once."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import perdure
from perdure.store.moves import event
from perdure.testing.postgres import PostgresServer
from tests.agent.conftest import open_runtime
from tests.agent.support.conversation import lines
from tests.agent.support.interrupted_turn import declare
from tests.agent.support.sandbox_run import until
from tests.seed import sample

pytestmark = pytest.mark.slow
KILLS = 5


def dying(store: str, folder: Path, kind: str, at: int) -> subprocess.CompletedProcess[str]:
    folder.mkdir()
    words = [sys.executable, "-m", "tests.agent.support.interrupted_turn", store, str(folder), kind, str(at)]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)


async def check_recovery(store: str, folder: Path, kind: str, where: str) -> None:
    """The next run stops the turn, and the turn after it is not interrupted."""
    agent, _ = declare(kind)
    async with open_runtime(store) as runtime:
        await runtime.start(agent.bind("begin"), id="talk", repository=folder)
        kinds = [one.kind async for one in runtime.events("talk")]
        if "interrupt.requested" not in kinds:  # it was killed before the request was durable
            await runtime.interrupt("talk", by="ada")
        view = await asyncio.wait_for(runtime.run("talk"), 60)
        assert ([one.kind for one in view.waits], view.interrupt_requested_at) == (["input"], None), where
        if kind == "command":
            await check_command(runtime, folder, where)
        await runtime.send("talk", "continue")
        await asyncio.wait_for(runtime.run("talk"), 60)
        said = await lines(runtime)
        assert [one.get("about") for one in said].count("interrupted") == 1, where
        assert said[-1]["content"] == "I continue.", where
        await runtime.store.read(event.verify, view.uid)


async def check_command(runtime: perdure.Runtime, folder: Path, where: str) -> None:
    """The command ran once and has a recorded end; its child writes no more."""
    [effect] = [one async for one in runtime.effects(session="talk", tool="run_command")]
    assert (effect.state, "ada stopped it" in str(effect.result)) == ("acknowledged", True), where
    size = (folder / "mark").stat().st_size
    await asyncio.sleep(0.1)
    assert (folder / "mark").stat().st_size == size, where


async def sweep(kind: str, folder: Path, make_store: list[str]) -> None:
    whole = await asyncio.to_thread(dying, make_store[0], folder / "whole", kind, 0)
    points: list[str] = json.loads(whole.stdout)
    assert len(points) > 10
    kills = 0
    for store, at in zip(make_store[1:], sample(range(1, len(points) + 1), KILLS), strict=False):
        where = f"{points[at - 1]}, point {at} of {len(points)}"
        died = await asyncio.to_thread(dying, store, folder / f"at-{at}", kind, at)
        assert died.returncode in (0, -signal.SIGKILL), (where, died.stderr)  # threads may reach one point fewer
        kills += died.returncode != 0
        if kind == "command":
            await asyncio.to_thread(until, (folder / f"at-{at}" / "mark").exists)
        await check_recovery(store, folder / f"at-{at}", kind, where)
    assert kills >= min(len(make_store) - 1, KILLS) - 1


@pytest.mark.parametrize("kind", ["command", "model"])
@pytest.mark.timeout(300)
async def test_a_killed_process_stops_the_turn_once(kind: str, tmp_path: Path) -> None:
    await sweep(kind, tmp_path, [str(tmp_path / f"{number}.db") for number in range(KILLS + 1)])


@pytest.mark.parametrize("kind", ["command", "model"])
@pytest.mark.postgres
@pytest.mark.timeout(300)
async def test_a_killed_process_stops_the_turn_once_on_postgres(
    kind: str, tmp_path: Path, postgres_server: PostgresServer
) -> None:
    await sweep(kind, tmp_path, [str(postgres_server.create_database()) for _ in range(3)])
