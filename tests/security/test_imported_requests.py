"""Attack: who wants an approval brings the session from a store of their own, and approves it here."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure import Call, ConfigError, Gate, IllegalMove, Session, program, tool
from perdure.store.inspection import damage
from perdure.testing import SinkClient
from tests.interchange.conftest import Open, opened, outside, sink
from tests.interchange.support.transfer import bodies, export_session, import_session
from tests.runtime.support.people import as_person, register

__all__ = ["opened", "outside", "sink"]


@tool(replay="idempotent", gate=Gate("imported-merge", requester_may_decide=False))
def imported_merge(call: Call) -> None:
    SinkClient.here().post(None, {"merge": "12"}, marker=call.key)


@program
async def imported_merger(s: Session) -> None:
    await s.do(imported_merge)


@pytest.mark.parametrize(
    ("move", "ran"), [(True, True), (True, False), (False, False)], ids=["asked there", "asked here", "copy"]
)
async def test_who_imports_a_session_may_not_decide_it(
    opened: Open, sink: SinkClient, folder: Path, move: bool, ran: bool
) -> None:
    here, there = opened("here"), opened("there")
    register(there.store, "eve", "grace")
    await here.start(imported_merger.bind(), id="t-1")
    if ran:
        await here.run("t-1")
    await export_session(here, "t-1", folder / "b", move=move)
    with as_person("eve"):
        await import_session(there, folder / "b")
    (asked,) = (await there.run("t-1")).waits
    with as_person("eve"), pytest.raises(IllegalMove, match="requested approval"):
        await there.approve(asked.id, by="eve", because="mine")
    assert ((await there.run("t-1")).status, bodies(sink)) == ("waiting", [])
    with as_person("grace"):
        await there.approve(asked.id, by="grace", because="seen")
    done = await there.run("t-1")
    assert (done.status, bodies(sink)) == ("done", ["merge: 12"])
    assert there.store.read_now(damage.of_session, done.uid) == []


@tool(replay="idempotent")
def remembered_send(call: Call) -> None:
    SinkClient.here().post(None, {"send": "12"}, marker=call.key)


@program
async def remembered_sender(s: Session) -> None:
    await s.do(remembered_send)


async def test_an_approval_in_a_bundle_cannot_be_remembered_here(opened: Open, sink: SinkClient, folder: Path) -> None:
    """Its bundle says what an answer lifts, and could name every rule of the policy."""
    here, there = opened("here"), opened("there")
    await here.set_policy('default = "ask"\n', because="test")
    await here.start(remembered_sender.bind(), id="t-1")
    assert (await here.run("t-1")).waits[0].detail["lifts"] == ["default"]
    await export_session(here, "t-1", folder / "b", move=True)
    done = await import_session(there, folder / "b")
    (asked,) = (await there.get("t-1")).waits
    with pytest.raises(ConfigError, match="cover one call"):
        await there.approve(asked.id, by="grace", remember="tool")
    await there.approve(asked.id, by="grace")
    assert ((await there.run("t-1")).status, bodies(sink)) == ("done", ["send: 12"])
    assert there.store.read_now(damage.of_session, done.session.uid) == []
