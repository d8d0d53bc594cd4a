"""Arguments above the limit are kept beside the store: rows and events stay small, and nothing else can tell."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Call, Outcome, Session, program, tool
from perdure.domain.effect import idempotency_key, intent_digest
from perdure.errors import ConfigError
from perdure.runtime.ledger.policy import Intent, Policy
from perdure.runtime.run.large_values import KEPT, LIMIT, kept_as
from perdure.store.moves import artifact, event
from perdure.store.moves import effect as effects
from perdure.store.moves import session as sessions
from tests.runtime.support.scripted_world import Outside, World, die

pytestmark = pytest.mark.anyio

LARGE = "x" * (LIMIT + 1)


@pytest.fixture
def kept(world: World, tmp_path: Any) -> World:
    """A world with a folder for large things, also where the store has none of its own."""
    world.rt.close()
    world.rt = world.open(artifacts=tmp_path / "artifacts")
    return world


async def longest_row(world: World) -> int:
    uid = (await world.rt.get("s")).uid
    return max(len(str(line.body)) for line in await world.rt.store.read(event.after, uid))


async def test_a_large_intent_is_an_artifact_and_the_tool_gets_it_whole(kept: World) -> None:
    got: list[str] = []

    @tool
    def write(call: Call, text: str) -> int:
        got.append(text)
        return len(text)

    @program
    async def writes(s: Session) -> int:
        return await s.do(write, text=LARGE)

    assert (await kept.run(writes.bind())).result == len(LARGE)
    assert got == [LARGE]
    row = await kept.effect()
    digest = kept_as(row.intent)
    assert digest is not None
    assert await longest_row(kept) < 4000
    assert row.intent_digest == intent_digest("write", {"text": LARGE}, [])
    assert row.idempotency_key == idempotency_key(row.session_uid, row.position, "write", {"text": LARGE}, 0)
    (shown,) = [one async for one in kept.rt.effects()]
    assert shown.intent == {"text": LARGE}
    assert digest in [one.digest for one in await kept.rt.store.read(artifact.of_session, row.session_uid)]
    assert (await kept.again()).result == len(LARGE)


@pytest.mark.slow
@pytest.mark.databases("sqlite", "files")
@pytest.mark.parametrize("replay", ["idempotent", "probe", "compensate"])
async def test_recovery_reads_it_back(world: World, replay: Any) -> None:
    outside, seen = Outside(), []

    @tool(name="write", replay=replay, inflight="0s")
    def write(call: Call, text: str) -> int:
        seen.append(len(text))
        if len(seen) == 1:
            die()
        return 1

    @write.probe
    def _(call: Call, text: str) -> Outcome:
        seen.append(-len(text))
        return Outcome.absent()

    @write.undo
    def _(call: Call, result: int | None, text: str) -> None:
        outside.undone.append(len(text))

    @program
    async def writes(s: Session) -> int:
        return await s.do(write, text=LARGE)

    await world.dies(writes.bind())
    (planned,) = await world.rt.recovery_plan("s")
    assert planned.tool == "write"
    assert (await world.again()).result == 1
    assert set(map(abs, seen)) == {len(LARGE)}
    assert outside.undone == ([len(LARGE)] if replay == "compensate" else [])


async def test_policy_and_approval_are_about_the_whole_of_it(kept: World) -> None:
    seen: list[int] = []

    def policy(intent: Intent) -> str:
        seen.append(len(intent.arguments["text"]))
        return "ask"

    assert kept.rt.values.directory is not None
    kept.rt.policy = Policy(policy)

    @tool
    def write(text: str) -> int:
        return len(text)

    @program
    async def writes(s: Session) -> int:
        return await s.do(write, text=LARGE)

    (asked,) = (await kept.run(writes.bind(), owner="bob")).waits
    assert kept_as(asked.detail["intent"]) is not None
    await kept.rt.approve(asked.id, by="ada", because="read it")
    assert (await kept.again()).result == len(LARGE)
    assert set(seen) == {len(LARGE)}


async def test_large_arguments_of_sessions_children_branches_and_restarts(kept: World) -> None:
    @program
    async def child(s: Session, text: str) -> int:
        return len(text)

    @program
    async def parent(s: Session, text: str, again: bool = True) -> list[int]:
        if again:
            await s.restart(text=text + "y", again=False)
        answer = await s.ask("?")
        return [len(text), await s.child(child.bind(text=text), id="c"), int(answer)]

    view = await kept.run(parent.bind(text=LARGE))
    assert (view.arguments["text"], view.restart_arguments["text"]) == (LARGE, LARGE + "y")
    same = await kept.rt.start(parent.bind(text=LARGE), id="s")
    assert same.uid == view.uid
    branch = await kept.rt.fork("s", id="b")
    (asked,) = view.waits
    await kept.rt.answer(asked.id, "7")
    assert (await kept.again("s")).result == [len(LARGE) + 1, len(LARGE) + 1, 7]
    assert (branch.arguments["text"], branch.restart_arguments["text"]) == (LARGE, LARGE + "y")
    assert (await kept.again("b")).status == "waiting"
    for name in ("s", "c", "b"):
        row = await kept.rt.store.read(sessions.get_by_id, name)
        claimed = {one.digest for one in await kept.rt.store.read(artifact.of_session, row.uid)}
        assert {kept_as(row.arguments), kept_as(row.restart_arguments)} - {None} <= claimed
        assert kept_as(row.arguments) is not None


@pytest.mark.databases("memory")
async def test_without_a_folder_they_stay_in_the_row(world: World) -> None:
    @tool
    def write(text: str) -> int:
        return len(text)

    @program
    async def writes(s: Session, text: str) -> int:
        return await s.do(write, text=text)

    view = await world.run(writes.bind(text=LARGE))
    assert view.result == len(LARGE)
    uid = view.uid
    assert (await world.rt.store.read(effects.of_session, uid))[0].intent == {"text": LARGE}
    assert (await world.rt.store.read(sessions.get, uid)).arguments == {"text": LARGE}


def test_no_argument_can_pass_for_an_artifact(world: World) -> None:
    with pytest.raises(ConfigError, match="No argument can be named"):
        world.rt.values.place({KEPT: "0" * 64})
