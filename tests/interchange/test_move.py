"""A moved session continues at the target as if nothing had happened, and nowhere else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import Session, program, tool
from perdure.domain.lease import RESTORE_SHIFT
from perdure.domain.restore import Cause
from perdure.domain.session import Status
from perdure.domain.worker import Liveness
from perdure.errors import Conflict, IllegalMove, LeaseHeld, NotFound
from perdure.interchange.export import export
from perdure.store.move import Move
from perdure.store.moves import effect as effects
from perdure.store.moves import lease, meta, restore, session
from perdure.store.moves.attempt import attempts_of
from perdure.store.transfer import session_export
from perdure.testing import SinkClient
from tests.interchange.conftest import Open
from tests.interchange.support import transfer
from tests.interchange.support.moved_program import DIE, travel_parent, travel_pusher, travel_talk, traveller
from tests.interchange.support.transfer import bodies, export_session, import_session, run_to_end, start_session

ALL = ["book: once", "comment: only \x1b[31mstyle\x1b[0m", "comment: only \x1b[31mstyle\x1b[0m: yes", "merge: 7"]


async def test_a_moved_session_continues_and_does_everything_once(
    target: str, opened: Open, sink: SinkClient, folder: Path
) -> None:
    here, there = opened("here"), opened(target)
    waiting = await start_session(here)
    assert [one.kind for one in waiting.waits] == ["approval"]
    done = await export_session(here, "t-1", folder / "t.zip", move=True)
    assert (done.mode, done.copy, done.counts["artifact"]) == ("move", None, 1)
    moved = await import_session(there, folder / "t.zip")
    assert (moved.session.uid, moved.session.status, moved.changed) == (waiting.uid, Status.WAITING, True)
    ended = await run_to_end(there, "t-1", sink)
    assert (ended.status, ended.result[-1], bodies(sink)) == (Status.DONE, "yes", ALL)
    transfer.verify(here, waiting.uid)
    transfer.verify(there, waiting.uid)


@pytest.mark.slow
async def test_a_session_can_move_back_and_away_again(
    target: str, opened: Open, sink: SinkClient, folder: Path
) -> None:
    here, there, beyond = opened("here"), opened(target), opened("beyond")
    uid = (await start_session(here, book="twice")).uid
    await export_session(here, "t-1", folder / "1.zip", move=True)
    await import_session(there, folder / "1.zip")
    (asked,) = (await there.get("t-1")).waits
    await there.approve(asked.id, by="person", because="it looks right")
    assert [one.kind for one in (await there.run("t-1")).waits] == ["input"]
    await export_session(there, "t-1", folder / "2", move=True)
    await import_session(here, folder / "2")
    assert transfer.stored_session(here, uid).tables == transfer.stored_session(there, uid).tables
    await export_session(here, "t-1", folder / "3.zip", move=True)
    await import_session(beyond, folder / "3.zip")
    ended = await run_to_end(beyond, "t-1", sink)
    assert (ended.status, len(bodies(sink)), len(sink.kept())) == (Status.DONE, 4, 4)
    await export_session(beyond, "t-1", folder / "4.zip", move=True)
    await import_session(there, folder / "4.zip")
    assert (await there.get("t-1")).status == Status.DONE
    for rt in (here, there, beyond):
        transfer.verify(rt, uid)


async def test_rows_are_the_same_at_the_target(target: str, opened: Open, sink: SinkClient, folder: Path) -> None:
    here, there = opened("here"), opened(target)
    uid = (await start_session(here, book="twice")).uid
    await export_session(here, "t-1", folder / "t", move=True)
    await import_session(there, folder / "t")
    old, new = transfer.stored_session(here, uid), transfer.stored_session(there, uid)
    assert new.tables == old.tables
    assert new.events[:-1] == old.events
    assert {one["state"] for one in new.tables["effect"]} == {"acknowledged", "planned", "superseded"}
    differ = {name for name, value in new.session.items() if value != old.session[name]}
    assert differ == {"cursor", "chain", "sealed_at", "updated_at", "code_version"}
    assert all(new.tables[table] for table in new.tables if table != "vote")


async def test_a_sealed_session_cannot_be_moved(opened: Open, sink: SinkClient, folder: Path) -> None:
    here = opened("here")
    view = await start_session(here)
    await export_session(here, "t-1", folder / "t.zip", move=True)
    (asked,) = view.waits
    with pytest.raises(IllegalMove, match="sealed here"):
        await here.approve(asked.id, by="grace", because="too late")
    with pytest.raises(IllegalMove, match="sealed here"):
        await here.store.write(lease.acquire(view.uid, "w", nonce="n", ttl=1))
    assert len(bodies(sink)) == 2


async def test_a_lost_bundle_is_written_again_byte_for_byte(opened: Open, sink: SinkClient, folder: Path) -> None:
    here = opened("here")
    await start_session(here)
    first = await export_session(here, "t-1", folder / "t.zip", move=True)
    assert await export_session(here, "t-1", folder / "t.zip", move=True) == first
    again = await export_session(here, "t-1", folder / "again.zip", move=True)
    assert (again.sha256, (folder / "again.zip").read_bytes()) == (first.sha256, (folder / "t.zip").read_bytes())
    (folder / "t.zip").write_bytes(b"something else")
    with pytest.raises(Conflict, match="is there already"):
        await export_session(here, "t-1", folder / "t.zip", move=True)
    assert sorted(path.name for path in folder.glob(".*")) == []


async def test_the_epoch_rises_across_stores(opened: Open, sink: SinkClient, folder: Path) -> None:
    """Also into a store that was restored less often: an old epoch is never used again in any store."""
    await opened("here").store.write(meta.put("restore_epoch", "3"))
    here, there = opened("here"), opened("there")
    uid = (await start_session(here)).uid
    old = (await here.get("t-1")).lease_epoch
    assert old > 3 << RESTORE_SHIFT
    await export_session(here, "t-1", folder / "1.zip", move=True)
    await import_session(there, folder / "1.zip")
    await there.store.write(session.wake_up(uid, "ada"))
    holder = await there.store.write(lease.acquire(uid, "w", nonce="n", ttl=1))
    assert holder.epoch > old


async def test_a_session_with_a_holder_is_not_moved(opened: Open, sink: SinkClient, folder: Path) -> None:
    here = opened("here")
    view = await here.start(traveller.bind(), id="t-1")
    holder = await here.store.write(lease.acquire(view.uid, "worker-1", nonce="n", ttl=60_000_000))
    with pytest.raises(LeaseHeld, match="worker-1"):
        await export_session(here, "t-1", folder / "t.zip", move=True)
    assert not (folder / "t.zip").exists()
    await here.store.write(session.release(holder))
    assert (await export_session(here, "t-1", folder / "t.zip", move=True)).mode == "move"


KILLED = """
import sys, perdure
from tests.interchange.support.moved_program import traveller
perdure.run(traveller.bind(), id="t-1", store=sys.argv[1])
"""


@pytest.mark.slow
async def test_an_act_of_a_dead_process_is_recovered_with_the_same_key(
    target: str, opened: Open, sink: SinkClient, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sink stored the comment, it was not recorded, and only its own machine knows that the process is dead."""
    with monkeypatch.context() as dying:
        dying.setenv(DIE, "only \x1b[31mstyle\x1b[0m")
        ended = subprocess.run([sys.executable, "-c", KILLED, str(folder / "here.db")])
    assert ended.returncode == -9
    here, there = opened("here"), opened(target)
    uid = (await here.get("t-1")).uid
    (act,) = await here.store.read(session_export.acts_under_way, uid)
    expired = here.store.clock.now() + 16_000_000
    monkeypatch.setattr(here.store.database.clock, "now", lambda: expired)  # its lease ends by itself
    with pytest.raises(IllegalMove, match="may still be under way"):
        export(here.store, uid, folder / "t.zip", by="ada", move=True, life_of=lambda _: Liveness.ALIVE,
               artifacts=here.values.directory)  # fmt: skip
    await export_session(here, "t-1", folder / "t.zip", move=True)
    await import_session(there, folder / "t.zip")
    ended_there = await run_to_end(there, "t-1", sink)
    assert (ended_there.status, bodies(sink)) == (Status.DONE, ALL)
    effect = await there.store.read(effects.get, uid, act.effect_id)
    (attempt,) = await there.store.read(attempts_of, uid, act.effect_id)
    assert (effect.state, attempt.number) == ("acknowledged", 1)


async def test_an_effect_that_holds_a_lease_is_settled_before_the_move(opened: Open, folder: Path) -> None:
    here = opened("here")
    waiting = await here.run((await here.start(travel_pusher.bind(), id="p")).id)
    assert [one.kind for one in waiting.waits] == ["doubt"]
    with pytest.raises(IllegalMove, match="holds branch:main here"):
        await export_session(here, "p", folder / "p.zip", move=True)
    (asked,) = waiting.waits
    await here.settle(str(asked.ref), "happened", by="ada", because="I looked")
    assert (await export_session(here, "p", folder / "p.zip", move=True)).mode == "move"


async def test_a_restored_session_is_not_moved_before_its_release(opened: Open, sink: SinkClient, folder: Path) -> None:
    """The target could not know that its next effect may have happened already."""
    here, there = opened("here"), opened("there")
    uid = (await start_session(here)).uid
    await here.store.write(Move("restore", "plain", lambda tx: restore.begin(tx, Cause.DECLARED)))
    for move in (True, False):
        with pytest.raises(IllegalMove, match="put back to an earlier time"):
            await export_session(here, "t-1", folder / "t.zip", move=move)
    await here.store.write(restore.release(by="ada", because="I looked at the sink"))
    await export_session(here, "t-1", folder / "t.zip", move=True)
    await import_session(there, folder / "t.zip")
    await export_session(there, "t-1", folder / "back.zip", move=True)
    await here.store.write(Move("raise", "plain", lambda tx: tx.run("restore.void_leases", epoch=9 << RESTORE_SHIFT)))
    await import_session(here, folder / "back.zip")
    assert (await here.get(uid)).lease_epoch == 9 << RESTORE_SHIFT


async def test_a_session_that_waits_for_its_child_is_not_moved(opened: Open, folder: Path) -> None:
    here = opened("here")
    await here.run((await here.start(travel_parent.bind(), id="p")).id)
    for move in (True, False):
        with pytest.raises(IllegalMove, match="waits for its child"):
            await export_session(here, "p", folder / "p.zip", move=move)
    with pytest.raises(IllegalMove, match="its parent waits for it here"):
        await export_session(here, "p-kid", folder / "kid.zip", move=True)
    assert (await here.get("p-kid")).sealed_at is None
    copied = await export_session(here, "p-kid", folder / "kid.zip")
    assert "is a child of session" in copied.notes[0]
    there = opened("there")
    arrived = await import_session(there, folder / "kid.zip")
    assert arrived.session.parent_uid is None


async def test_a_move_is_taken_back_only_on_request(opened: Open, sink: SinkClient, folder: Path) -> None:
    here = opened("here")
    await start_session(here)
    await export_session(here, "t-1", folder / "t.zip", move=True)
    with pytest.raises(Conflict, match="was moved out of this store"):
        await import_session(here, folder / "t.zip")
    assert (await here.get("t-1")).sealed_at is not None
    back = await import_session(here, folder / "t.zip", take_back=True)
    assert (back.session.sealed_at, back.changed) == (None, True)
    assert not (await import_session(here, folder / "t.zip", take_back=True)).changed
    assert (await run_to_end(here, "t-1", sink)).status == Status.DONE
    assert bodies(sink) == ALL


async def test_importing_a_move_again_changes_nothing_later(
    target: str, opened: Open, sink: SinkClient, folder: Path
) -> None:
    here, there = opened("here"), opened(target)
    uid = (await start_session(here)).uid
    await export_session(here, "t-1", folder / "t.zip", move=True)
    await import_session(there, folder / "t.zip")
    for _ in range(2):
        before = transfer.stored_session(there, uid)
        again = await import_session(there, folder / "t.zip", id="another")
        assert (again.changed, again.session.id, transfer.stored_session(there, uid) == before) == (False, "t-1", True)
        await run_to_end(there, "t-1", sink)


async def test_a_session_that_continued_in_two_stores_is_refused(opened: Open, sink: SinkClient, folder: Path) -> None:
    """Neither store can see that a move was imported in both; it is found where the two logs meet."""
    here, one, two = opened("here"), opened("one"), opened("two")
    uid = (await start_session(here)).uid
    await export_session(here, "t-1", folder / "t.zip", move=True)
    for rt, path in ((one, "one.zip"), (two, "two.zip")):
        await import_session(rt, folder / "t.zip")
        await export_session(rt, "t-1", folder / path, move=True)
    await import_session(here, folder / "one.zip")
    before = transfer.stored_session(here, uid)
    with pytest.raises(Conflict, match="continued in two stores"):
        await import_session(here, folder / "two.zip")
    assert transfer.stored_session(here, uid) == before


async def test_an_existing_session_id_is_not_replaced(opened: Open, sink: SinkClient, folder: Path) -> None:
    here, there = opened("here"), opened("there")
    await start_session(here)
    await there.start(travel_talk.bind(), id="t-1")
    await export_session(here, "t-1", folder / "t.zip", move=True)
    with pytest.raises(Conflict) as refused:
        await import_session(there, folder / "t.zip")
    assert "--id NEW" in refused.value.hint
    moved = await import_session(there, folder / "t.zip", id="t-2")
    assert (moved.session.id, (await there.state_at("t-2")).session["id"]) == ("t-2", "t-2")
    assert (await run_to_end(there, "t-2", sink)).status == Status.DONE


async def test_a_session_that_cannot_be_exported_is_not_sealed(opened: Open, sink: SinkClient, folder: Path) -> None:
    here = opened("here")
    uid = (await start_session(here)).uid
    (folder / "t.zip").touch()
    cases: list[tuple[Path, Any, type[Exception]]] = [
        (folder / "t.zip", None, Conflict),
        (folder / "nowhere" / "t.zip", None, NotFound),
        (folder / "new.zip", "artifact", NotFound),
    ]
    assert here.values.directory is not None
    for path, what, error in cases:
        if what == "artifact":
            for name in here.values.directory.names():
                here.values.directory.remove(name)
        with pytest.raises(error):
            await export_session(here, "t-1", path, move=True)
        assert (await here.get(uid)).sealed_at is None


async def test_imported_history_cannot_be_moved(opened: Open, sink: SinkClient, folder: Path) -> None:
    here, there = opened("here"), opened("there")
    uid = (await start_session(here)).uid
    await export_session(here, "t-1", folder / "move.zip", move=True)
    await export_session(here, "t-1", folder / "copy.zip")
    await import_session(there, folder / "copy.zip")
    with pytest.raises(IllegalMove, match="sealed here"):
        await export_session(there, uid, folder / "again.zip", move=True)


@tool(leases=("branch:{branch}",), inflight=0)
def moved_push(branch: str) -> int:
    raise OSError("the line was cut")


@program
async def branch_pusher(s: Session, branch: str) -> int:
    return await s.do(moved_push, branch=branch)


async def test_a_session_whose_effect_holds_a_lease_is_not_moved(folder: Path) -> None:
    async with perdure.open(folder / "a.db") as rt:
        first = await rt.start(branch_pusher.bind(branch="main"), id="first")
        await rt.run("first")
        (effect,) = [one async for one in rt.effects(session="first")]
        await rt.settle(effect.id, "absent", by="ada", because="looked")
        try:
            export(rt.store, first.uid, folder / "first.zip", by="ada", move=True)
        except IllegalMove:
            return
        await rt.start(branch_pusher.bind(branch="main"), id="second")
        assert "lease" not in {one.kind for one in (await rt.run("second")).waits}


@tool
def lost_reply(n: int) -> int:
    raise OSError("the line was cut")


@program
async def lost_reply_program(s: Session) -> int:
    return await s.do(lost_reply, n=1)


async def test_a_session_whose_branch_waits_for_its_effect_is_not_moved(folder: Path) -> None:
    async with perdure.open(folder / "a.db") as rt:
        await rt.start(lost_reply_program.bind(), id="parent")
        parent = await rt.run("parent")
        branch = await rt.fork("parent")
        assert [one.kind for one in (await rt.run(branch.id)).waits] == ["effect"]
        with pytest.raises(IllegalMove):
            export(rt.store, parent.uid, folder / "parent.zip", by="ada", move=True)


async def test_a_session_that_failed_here_comes_back_after_a_retry(target: str, opened: Open, folder: Path) -> None:
    broken = [True]

    @program
    async def travel_retry(s: Session) -> int:
        if broken:
            raise ValueError("not yet")
        return await s.step("work", lambda: 7)

    here, there = opened("here"), opened(target)
    uid = (await here.run((await here.start(travel_retry.bind(), id="t-1")).id)).uid
    await export_session(here, "t-1", folder / "1.zip", move=True)
    await import_session(there, folder / "1.zip")
    broken.clear()
    await there.retry("t-1")
    assert (await there.run("t-1")).result == 7
    await export_session(there, "t-1", folder / "2.zip", move=True)
    back = (await import_session(here, folder / "2.zip")).session
    assert (back.status, back.result, back.retries, back.error) == ("done", 7, 1, None)
    transfer.verify(here, uid)


@pytest.mark.databases("sqlite", "postgres")  # text files keep every line
async def test_a_removed_session_is_not_imported_again(target: str, opened: Open, folder: Path) -> None:
    @program
    async def travel_removed(s: Session) -> int:
        return 7

    here, there = opened("here"), opened(target)
    await here.run((await here.start(travel_removed.bind(), id="t-1")).id)
    await export_session(here, "t-1", folder / "1.zip", move=True)
    await import_session(there, folder / "1.zip")
    await there.remove("t-1", because="a test")
    with pytest.raises(Conflict, match="was removed on"):
        await import_session(there, folder / "1.zip")
    with pytest.raises(NotFound, match="was removed on"):
        await export_session(there, "t-1", folder / "2.zip")
