"""A brief says what the record says: of a program, of an agent, of a branch; and it stays small."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import Agent, Session, program
from perdure.clock import SECOND
from perdure.control.brief import MOST, Brief, make_brief
from perdure.runtime.definitions.program import PROGRAMS
from perdure.store.moves import event, fact, lease, session
from perdure.testing import ManualClock, ScriptedModel
from tests.agent.support.conversation import calls

pytestmark = pytest.mark.databases("sqlite", "postgres")

EDIT = ("edit_file", {"path": "a.txt", "old": "one", "new": "uno"})
DECIDE = ("decide", {"decision": "say it in Spanish", "because": "ada asked for it", "then": "edit a.txt"})
PLAN = ("plan", {"tasks": [{"title": "edit", "state": "active"}, {"title": "tell"}]})


@pytest.fixture(autouse=True)
def _own_names() -> Iterator[None]:
    before = dict(PROGRAMS)
    yield
    PROGRAMS.clear()
    PROGRAMS.update(before)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\n")
    return work


def translator() -> Agent:
    script: list[Any] = [calls(PLAN, ("read_file", {"path": "a.txt"})), calls(DECIDE), calls(EDIT), "Done.", "I see."]
    tools = ["plan", "decide", "read_file", "edit_file"]
    return Agent("translator", model=ScriptedModel(script), tools=tools, policy=None)


async def told(runtime: perdure.Runtime, name: str) -> Brief:
    found = await runtime.store.read(session.find, name)
    beside = runtime.store.folder or (runtime.values.directory.folder if runtime.values.directory else None)
    return await runtime.store.read(make_brief, found, beside)


async def test_brief_of_a_program_as_of_its_last_event(target: str, clock: ManualClock) -> None:
    @program
    async def brief_desk(s: Session, pr: int) -> None:
        await s.decide("comment", because="only style")
        clock.advance(seconds=1)
        chosen = await s.decide("wait", because="it is late")
        await chosen.settle("waited")
        await s.task("read", id="read")
        await s.remember("seen", pr, stale_after="1s")
        await s.ask("Merge now?")

    async with perdure.open(target, clock=clock) as runtime:
        made = await runtime.start(brief_desk.bind(pr=7), id="desk", title="Review 7")
        await runtime.run("desk")
        await runtime.store.write(fact.remember(made.uid, "ada", "orders", "style", "plain words"))
        clock.advance(seconds=90)
        found = await told(runtime, "desk")
        assert (found.number, found.now - found.at) == ((await runtime.get("desk")).cursor, 90 * SECOND)
        assert [(one.decision, one.outcome) for one in found.decisions] == [("comment", None), ("wait", "waited")]
        assert ([one.title for one in found.tasks], [one.value for one in found.orders]) == (["read"], ["plain words"])
        assert (found.goal, found.title, [one.kind for one in found.waits]) == (None, "Review 7", ["input"])
        assert found.stale == [f"session:{made.uid}/seen"]
        await runtime.cancel("desk")
        assert (await told(runtime, "desk")).number > found.number


async def test_brief_of_an_agent_has_outside_changes(target: str, place: Path, tmp_path: Path) -> None:
    async with perdure.open(target, artifacts=tmp_path / "large") as runtime:
        await runtime.start(translator().bind("translate a.txt"), id="talk", repository=place)
        await runtime.run("talk")
        found = await told(runtime, "talk")
        assert (found.goal, found.answer, found.folder) == ("translate a.txt", "Done.", str(place))
        assert ([one.tool for one in found.done], found.changed) == (["edit_file"], [])
        (place / "a.txt").write_text("eins\n")
        await runtime.send("talk", "continue")
        assert (await told(runtime, "talk")).changed == [
            "a.txt changed since it was read",
            "unread messages: 1",
        ]
        await runtime.run("talk")
        assert [one.text for one in (await told(runtime, "talk")).said] == ["continue"]


async def test_brief_of_a_branch_has_decisions_before_its_fork(target: str, place: Path, tmp_path: Path) -> None:
    async with perdure.open(target, artifacts=tmp_path / "large") as runtime:
        await runtime.start(translator().bind("translate a.txt"), id="talk", repository=place)
        await runtime.run("talk")
        events = [one async for one in runtime.events("talk")]
        planned = next(one.number for one in events if one.kind == "task.changed")
        decided = next(one.number for one in events if one.kind == "decision.made")
        before = await told(runtime, (await runtime.fork("talk", at=planned)).id)
        assert ([one.title for one in before.tasks], before.decisions, before.done) == (["edit"], [], [])
        between = await told(runtime, (await runtime.fork("talk", at=decided)).id)
        assert ([one.decision for one in between.decisions], between.done) == (["say it in Spanish"], [])
        begun = next(one.number for one in events if one.kind == "effect.dispatched")
        assert (await told(runtime, (await runtime.fork("talk", at=begun)).id)).done == []
        grandchild = await runtime.fork((await runtime.fork("talk")).id)
        after = await told(runtime, grandchild.id)
        assert ([one.tool for one in after.done], after.branch_at) == (["edit_file"], grandchild.forked_at)
        assert [one.title for one in after.tasks] == ["edit", "tell"]


@pytest.mark.slow
async def test_omitted_entries_are_counted(target: str, clock: ManualClock) -> None:
    @program
    async def brief_busy(s: Session) -> None:
        for nth in range(MOST + 5):
            await s.task(f"task {nth}", id=f"t-{nth:02}")
        await s.ask("Continue?")

    async with perdure.open(target, clock=clock) as runtime:
        await runtime.start(brief_busy.bind(), id="busy")
        await runtime.run("busy")
        found = await told(runtime, "busy")
        assert (len(found.tasks), found.left_out) == (MOST, {"tasks": 5})


async def test_only_regular_files_in_the_folder_are_opened(target: str, place: Path) -> None:
    """A bundle from elsewhere may say that anything was read."""
    hostile = {"../secret": "0", "/dev/zero": "0", "pipe": "0", "a.txt": "0"}
    (place.parent / "secret").write_text("s")
    os.mkfifo(place / "pipe")

    async with perdure.open(target) as runtime:
        made = await runtime.start(translator().bind("translate"), id="hostile", repository=place)
        holder = await runtime.store.write(lease.acquire(made.uid, "stranger", nonce="n", ttl=SECOND))
        body = {"role": "tool", "of": [made.uid, 1], "index": 0, "read": hostile}
        await runtime.store.write(event.append(holder, "message", body))
        assert (await told(runtime, "hostile")).changed == ["a.txt changed since it was read"]
