"""A restore reaches what it cannot see: children, sub-agents and copies that begin again with the keys they had."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from perdure import Agent, Call, Outcome, Session, program, tool
from perdure.agent.model import Reply, Request, ToolCall
from perdure.clock import SECOND
from perdure.domain.restore import Restore
from perdure.domain.session import SessionRecord
from perdure.domain.wait import Wait
from perdure.interchange.export import export
from perdure.interchange.import_ import import_bundle
from perdure.runtime.definitions.program import PROGRAMS
from perdure.runtime.runtime import Runtime, SessionView
from perdure.runtime.runtime import open as open_runtime
from perdure.store.moves import restore
from perdure.store.store import Store
from perdure.testing import ManualClock
from tests.runtime.ledger.test_restore import declare, put_back
from tests.store.support.sessions import a_session

SENT: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_was_sent() -> None:
    SENT.clear()


def test_a_restore_is_over_a_child_as_old_as_its_oldest_ancestor(store: Store, clock: ManualClock) -> None:
    old = a_session(store)
    clock.advance(seconds=SECOND)
    begun = store.write_now(declare())
    clock.advance(seconds=SECOND)

    def over(one: SessionRecord) -> Restore | None:
        return store.read_now(restore.unreleased_for, one.uid)

    child = a_session(store, parent_uid=old.uid, parent_wait="w")
    grandchild = a_session(store, parent_uid=child.uid, parent_wait="w")
    assert [over(one) for one in (old, child, grandchild)] == [begun] * 3
    new, fork = a_session(store), a_session(store, forked_from=old.uid, forked_at=1)
    below = a_session(store, parent_uid=fork.uid, parent_wait="w")
    assert [over(one) for one in (new, fork, below)] == [None] * 3  # their uids were made after the restore


def declare_family(replay: Any) -> None:
    """A program that waits for a word, and whose grandchild then acts."""

    @tool(name="act", replay=replay, inflight="1ms")
    def act(call: Call) -> None:
        SENT.append(call.key)

    if replay == "probe":

        @act.probe
        def look(call: Call) -> Outcome:
            return Outcome.happened() if call.key in SENT else Outcome.absent()

    @program
    async def grandchild(s: Session) -> None:
        await s.do(act)

    @program
    async def child(s: Session) -> None:
        await s.child(grandchild.bind())

    @program
    async def family(s: Session) -> str:
        await s.ask("Now?", choices=["yes"])
        await s.child(child.bind())
        return "acted"


async def answered(runtime: Runtime, name: str = "s") -> SessionView:
    (asked,) = [one for one in (await runtime.get(name)).waits if one.kind == "input"]
    await runtime.answer(asked.id, "yes")
    return await runtime.run(name)


async def doubts(runtime: Runtime, view: SessionView) -> list[Wait]:
    """What a session and its children ask a person about."""
    found = [one for one in view.waits if one.kind == "doubt"]
    for one in view.waits:
        if one.kind == "child" and one.ref is not None:
            found += await doubts(runtime, await runtime.get(one.ref))
    return found


@pytest.mark.anyio
@pytest.mark.parametrize("replay", ["probe", "escalate"])
async def test_a_child_lost_by_a_restore_does_nothing_twice(replay: Any, folder: Path) -> None:
    declare_family(replay)
    path, backup = folder / "perdure.db", folder / "backup.db"
    async with open_runtime(path) as runtime:
        await runtime.start(PROGRAMS["family"].bind(), id="s")
        await runtime.run("s")
    shutil.copy(path, backup)
    async with open_runtime(path) as runtime:
        assert (await answered(runtime)).result == "acted"
    put_back(path, backup)
    async with open_runtime(path) as runtime:
        view = await answered(runtime)
        asked = await doubts(runtime, view)
        assert len(SENT) == 1
        if replay == "probe":
            assert (view.result, asked) == ("acted", [])
            return
        (one,) = asked
        await runtime.settle(str(one.ref), "happened", by="ada", because="she has it")
        assert (await runtime.complete("s")).result == "acted"
    assert len(SENT) == 1


class Delegating:
    """Asks a person, then delegates; the sub-agent sends a mail."""

    name = "scripted:delegating"

    async def reply(self, request: Request, hear: object) -> Reply:
        if request.turns[0].text == "a part":
            return Reply("Sent.") if request.number else Reply(calls=(ToolCall("c", "mail", {}),), stop="calls")
        calls = (("ask_person", {"question": "Now?"}), ("delegate", {"task": "a part"}))
        if request.number < len(calls):
            return Reply(calls=(ToolCall("c", *calls[request.number]),), stop="calls")
        return Reply("Done.")


@pytest.mark.anyio
async def test_a_sub_agent_lost_by_a_restore_does_nothing_twice(folder: Path) -> None:
    @tool(name="mail", inflight="1ms")
    def mail(call: Call) -> str:
        SENT.append(call.key)
        return "sent"

    agent = Agent("boss", model=Delegating(), tools=[mail, "ask_person", "delegate"], policy=None)
    path, backup = folder / "perdure.db", folder / "backup.db"
    async with open_runtime(path) as runtime:
        await runtime.start(agent.bind("begin", True), id="s")
        await runtime.run("s")
    shutil.copy(path, backup)
    async with open_runtime(path) as runtime:
        assert (await answered(runtime)).status == "done"
    put_back(path, backup)
    async with open_runtime(path) as runtime:
        assert [one.kind for one in await doubts(runtime, await answered(runtime))] == ["doubt"]
    assert len(SENT) == 1


@pytest.mark.anyio
async def test_a_copy_imported_again_after_a_restore_does_nothing_twice(folder: Path) -> None:
    """Its uid was made at the export, so the copy that was lost had the same keys."""
    declare_family("escalate")
    path, backup, bundle = folder / "perdure.db", folder / "backup.db", folder / "s.zip"
    async with open_runtime(folder / "elsewhere.db") as elsewhere:
        view = await elsewhere.start(PROGRAMS["family"].bind(), id="s")
        export(elsewhere.store, view.uid, bundle, by="ada", artifacts=elsewhere.values.directory)
    open_runtime(path).close()
    shutil.copy(path, backup)
    for lived in range(2):
        async with open_runtime(path) as runtime:
            import_bundle(runtime.store, bundle, by="ada", artifacts=runtime.values.directory)
            await runtime.run("s")
            view = await answered(runtime)
            assert [one.kind for one in await doubts(runtime, view)] == ["doubt"] * lived
        put_back(path, backup)
    assert len(SENT) == 1
