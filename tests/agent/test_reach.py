"""Whether an effect left the machine."""

from __future__ import annotations

import msgspec
import pytest

from perdure.agent import reach
from perdure.agent.files.branch import merge_branch, open_worktree
from perdure.agent.files.rewind.folder_rewind import rewind_files
from perdure.agent.inference import NAME as MODEL
from perdure.agent.reach import Reach
from perdure.agent.stored_agent import NAME
from perdure.agent.tools.builtin_tools import SHIPPED
from perdure.agent.tools.command import run_read_only
from perdure.domain.effect import Effect
from perdure.store.moves import effect as effects
from perdure.store.moves import lease, session
from perdure.store.moves.effect_input import Dispatch, NewEffect
from perdure.store.store import Store
from tests.store.support.sessions import TTL


def test_every_tool_that_ships_is_classified() -> None:
    folders = {open_worktree.name, merge_branch.name, rewind_files.name}
    assert set(reach.SHIPPED) == {*SHIPPED, run_read_only.name, *folders, MODEL}
    assert reach.STORED_AGENT == NAME


def dispatched(store: Store, tool: str, replay: str, *, sandbox: str | None = None, network: bool = False) -> Effect:
    new = session.NewSession(id=f"{tool}-{sandbox}-{network}", program=NAME, arguments={"network": network})
    uid = store.write_now(session.create(new, by="ada")).uid
    holder = store.write_now(lease.acquire(uid, "w-1", nonce="n-1", ttl=TTL))
    intent = NewEffect(
        id="e-1", position='["x"]', generation=0, tool=tool, replay=replay, targets="[]", intent="{}",
        intent_digest="d" * 64, idempotency_key="k" * 64,
    )  # fmt: skip
    made = Dispatch(worker="w-1", process="{}", sandbox=sandbox, deadline_at=None)
    return store.write_now(effects.plan_and_dispatch(holder, intent, made))


@pytest.mark.databases("memory")
@pytest.mark.parametrize(
    ("tool", "replay", "under_way", "done"),
    [
        ("git_push", "probe", Reach.MAYBE, Reach.YES),
        ("fetch_url", "pure", Reach.MAYBE, Reach.YES),
        ("write_file", "probe", Reach.NO, Reach.NO),
        ("their_pure", "pure", Reach.NO, Reach.NO),
        ("their_joint", "joint", Reach.NO, Reach.NO),
        ("their_post", "escalate", Reach.MAYBE, Reach.MAYBE),
    ],
)
def test_reach_follows_from_tool_rule_and_state(
    store: Store, tool: str, replay: str, under_way: Reach, done: Reach
) -> None:
    one = dispatched(store, tool, replay)
    states = {"planned": Reach.NO, "refused": Reach.NO, "dispatched": under_way, "acknowledged": done}
    for state, expected in states.items():
        assert store.read_now(reach.of, msgspec.structs.replace(one, state=state)) is expected
    abandoned = msgspec.structs.replace(one, state="failed", verdict="abandon")
    assert store.read_now(reach.of, abandoned) is under_way


@pytest.mark.databases("memory")
@pytest.mark.parametrize(
    ("declared", "expected"), [("workspace", Reach.NO), ("machine", Reach.NO), ("outside", Reach.MAYBE)]
)
def test_a_declared_reach_below_outside_stays_on_the_machine(store: Store, declared: str, expected: Reach) -> None:
    one = msgspec.structs.replace(dispatched(store, "their_post", "escalate"), reach=declared, state="acknowledged")
    assert store.read_now(reach.of, one) is expected


@pytest.mark.databases("memory")
def test_a_command_in_a_sandbox_without_network_stays_on_the_machine(store: Store) -> None:
    said = {
        (sandbox, network): store.read_now(
            reach.of, dispatched(store, "run_command", "escalate", sandbox=sandbox, network=network)
        )
        for sandbox in ("bubblewrap", "landlock", "none")
        for network in (False, True)
    }
    assert [key for key, value in said.items() if value is Reach.NO] == [("bubblewrap", False)]


@pytest.mark.databases("memory")
@pytest.mark.parametrize(
    ("name", "expected"),
    [("anthropic:x", Reach.YES), ("openai:x", Reach.YES), ("scripted:x", Reach.NO), ("own", "maybe")],
)
def test_a_model_call_leaves_the_machine_unless_it_is_scripted(store: Store, name: str, expected: str) -> None:
    asked = dispatched(store, MODEL, "pure")
    done = msgspec.structs.replace(asked, state="acknowledged", intent={"model": name})
    assert store.read_now(reach.of, done) == expected
