"""The policy changes, and processes are killed, while effects are dispatched: nothing begins under a dead policy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import perdure
from perdure.errors import LeaseHeld
from perdure.runtime.queries import SessionView
from tests.runtime.support import policy_app
from tests.runtime.support.killed_calls import run_and_kill
from tests.runtime.support.policy_app import DENY, SINK, attempts, change, said
from tests.seed import kill_points

pytestmark = [pytest.mark.anyio, pytest.mark.databases("sqlite", "postgres"), pytest.mark.slow]


@pytest.fixture(autouse=True)
def sink(folder: Path) -> Path:
    SINK.append(folder / "sink")
    return SINK[-1]


def run_app(target: str, sink: Path, mode: str, nth: int) -> int:
    command = [sys.executable, "-m", policy_app.__name__, target, str(sink), mode, str(nth)]
    return subprocess.run(command, timeout=120, capture_output=True).returncode


async def run_here(target: str) -> SessionView:
    """Run the session in this process, once the lease of the dead one has ended."""
    async with perdure.open(target) as rt:
        if not [one async for one in rt.sessions()]:
            await rt.start(policy_app.policy_acts.bind(), id="s")
        while True:
            try:
                view = await rt.run("s")
            except LeaseHeld:
                continue
            if [one.kind for one in view.waits] != ["timer"]:
                return view


def check(target: str, sink: Path) -> None:
    """What was on record when the policy was set is all that was ever dispatched, and all that was ever done."""
    store = perdure.open(target).store
    try:
        there = store.read_now(attempts)
    finally:
        store.close()
    lines = said(sink)
    (dispatched,) = [one["changed"] for one in lines if "changed" in one]
    assert there == dispatched
    known = {(one[0], one[1]) for one in there}
    assert {(one["effect"], one["attempt"]) for one in lines if "act" in one} <= known
    assert {one[2] for one in there} <= {"0"}


@pytest.mark.parametrize("mode", ["change", "change-and-kill"])
async def test_nothing_begins_after_a_change_at_any_moment(target: str, sink: Path, mode: str) -> None:
    nth = kill_points(9, every=8).start
    assert run_app(target, sink, mode, nth) == (0 if mode == "change" else -9)
    assert (await run_here(target)).status in ("failed", "waiting", "done")
    check(target, sink)


async def test_nothing_begins_after_a_kill_and_a_change(target: str, sink: Path) -> None:
    nth = kill_points(40, every=39).start
    run_app(target, sink, "kill", nth)
    change(target)
    await run_here(target)
    check(target, sink)


async def test_a_change_that_is_killed_is_whole_or_absent(target: str) -> None:
    nth = kill_points(6, every=5).start
    await run_and_kill(target, f"await rt.set_policy({DENY!r}, because='a test')", nth)
    async with perdure.open(target) as rt:
        version = (await rt.get_policy()).version
        assert len(await rt.policy_versions()) == version
        view = await run_here(target)
    assert view.status == ("failed" if version else "done")


async def test_a_freeze_stops_a_running_process_and_a_thaw_continues_it(target: str, sink: Path) -> None:
    nth = kill_points(6, every=5).start  # before the dispatch of the last act
    assert run_app(target, sink, "freeze", nth) == 0
    async with perdure.open(target) as rt:
        assert [one.kind for one in (await rt.get("s")).waits] == ["policy"]
        check(target, sink)
        await rt.thaw_policy()
    assert (await run_here(target)).result == 3
    assert sorted(one["act"] for one in said(sink) if "act" in one) == [0, 1, 2]


@pytest.mark.parametrize("governed", ["before", "after"])
async def test_a_process_without_a_policy_of_its_own_is_bound(target: str, sink: Path, governed: str) -> None:
    if governed == "before":
        change(target)
    async with perdure.open(target, policy=lambda _: "allow") as rt:
        await rt.start(policy_app.policy_acts.bind(), id="s")
    if governed == "after":
        change(target)
    assert run_app(target, sink, "kill", 0) == 0
    check(target, sink)
    assert not [one for one in said(sink) if "act" in one]
