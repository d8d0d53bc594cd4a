"""A copy continues beside its original: it inherits what was settled, and never acts on what was not."""

from __future__ import annotations

import asyncio
import zipfile
from pathlib import Path

import msgspec
import pytest

from perdure.domain.session import Status
from perdure.errors import Conflict, IllegalMove
from perdure.interchange.bundle import COPY, MANIFEST
from perdure.interchange.export import BundleOrigin, compose
from perdure.interchange.pack import write
from perdure.runtime.runtime import Runtime
from perdure.store.moves import event, inbox, lease
from perdure.store.transfer import session_export
from perdure.testing import SinkClient
from tests.interchange.conftest import Open
from tests.interchange.support import transfer
from tests.interchange.support.moved_program import travel_talk
from tests.interchange.support.transfer import bodies, export_session, import_session, run_to_end, start_session

STYLE = "comment: only \x1b[31mstyle\x1b[0m"


async def everything(rt: Runtime) -> dict[str, session_export.StoredSession]:
    return {one.uid: transfer.stored_session(rt, one.uid) async for one in rt.sessions()}


@pytest.mark.slow
async def test_a_copy_is_a_branch_of_sealed_history(target: str, opened: Open, sink: SinkClient, folder: Path) -> None:
    here, there = opened("here"), opened(target)
    original = await start_session(here)
    before = await everything(here)
    done = await export_session(here, "t-1", folder / "t.zip")
    assert await everything(here) == before
    copied = await import_session(there, folder / "t.zip")
    assert (copied.session.uid, copied.session.id, copied.session.status) == (done.copy, "t-1", Status.READY)
    assert (copied.session.forked_from, copied.session.forked_at) == (original.uid, original.cursor)
    history = await there.get(original.uid)
    assert (history.id, history.sealed_at is not None) == (f"t-1.{original.uid[-8:]}", True)
    assert transfer.stored_session(there, original.uid).tables == transfer.stored_session(here, original.uid).tables
    assert transfer.stored_session(there, original.uid).events == transfer.stored_session(here, original.uid).events
    transfer.verify(there, original.uid, copied.session.uid)


async def test_importing_a_copy_twice_changes_nothing(
    target: str, opened: Open, sink: SinkClient, folder: Path
) -> None:
    here, there = opened("here"), opened(target)
    await start_session(here)
    await export_session(here, "t-1", folder / "t")
    first = await import_session(there, folder / "t")
    for _ in range(2):
        before = await everything(there)
        again = await import_session(there, folder / "t", id="another")
        assert (again.changed, again.session.uid) == (False, first.session.uid)
        assert await everything(there) == before
        await there.run("t-1")
    second = await export_session(here, "t-1", folder / "second")
    other = await import_session(there, folder / "second", id="t-2")
    assert (other.changed, other.session.uid) == (True, second.copy)
    assert second.copy != first.session.uid


async def test_a_copy_that_was_removed_is_not_imported_again(opened: Open, sink: SinkClient, folder: Path) -> None:
    here, there = opened("here"), opened("there")
    await start_session(here)
    await export_session(here, "t-1", folder / "t")
    await import_session(there, folder / "t")
    await there.remove("t-1", because="a test")
    with pytest.raises(Conflict, match="Session t-1 was removed"):
        await import_session(there, folder / "t", id="another")


async def test_a_copy_never_acts_on_unsettled_effects_of_its_original(
    opened: Open, sink: SinkClient, folder: Path
) -> None:
    """The merge is planned and waits for an approval: it is the original's, and the copy waits for its outcome."""
    here, there = opened("here"), opened("there")
    original = await start_session(here)
    done = await export_session(here, "t-1", folder / "t.zip")
    assert "stay with the original" in done.notes[0]
    await import_session(there, folder / "t.zip")
    waiting = await there.run("t-1")
    assert [one.kind for one in waiting.waits] == ["effect"]
    (plan,) = [one for one in await there.recovery_plan("t-1") if one.action == "wait for its session"]
    assert plan.tool == "travel_merge"
    (asked,) = original.waits
    with pytest.raises(IllegalMove, match="sealed here"):
        await there.approve(asked.id, by="person", because="not here")
    assert bodies(sink) == ["book: once", STYLE]

    await here.approve(asked.id, by="person", because="it looks right")
    await here.run("t-1")
    await export_session(here, "t-1", folder / "later.zip")
    await import_session(there, folder / "later.zip", id="later")
    ended = await run_to_end(there, "t-1", sink)
    assert (ended.status, ended.result[-1]) == (Status.DONE, "yes")
    assert bodies(sink) == ["book: once", STYLE, f"{STYLE}: yes", "merge: 7"]
    transfer.verify(there, original.uid, ended.uid)
    assert (await there.get(original.uid)).status == Status.WAITING


async def test_a_branch_from_before_the_effect_acts_itself(opened: Open, sink: SinkClient, folder: Path) -> None:
    here, there = opened("here"), opened("there")
    original = await start_session(here)
    await export_session(here, "t-1", folder / "t.zip")
    await import_session(there, folder / "t.zip")
    merge = next(
        one for one in transfer.stored_session(here, original.uid).tables["effect"] if one["tool"] == "travel_merge"
    )
    await there.fork(original.uid, at=merge["number"] - 1, id="own")
    assert (await run_to_end(there, "own", sink)).status == Status.DONE
    assert bodies(sink) == ["book: once", STYLE, f"{STYLE}: yes", "merge: 7"]


async def test_a_copy_of_a_finished_session_finishes_with_the_same_result(
    target: str, opened: Open, sink: SinkClient, folder: Path
) -> None:
    here, there = opened("here"), opened(target)
    await start_session(here, book="twice")
    original = await run_to_end(here, "t-1", sink)
    outside = sink.kept()
    await export_session(here, "t-1", folder / "t.zip")
    await import_session(there, folder / "t.zip")
    copy = await there.run("t-1")
    assert (copy.status, copy.result) == (Status.DONE, original.result)
    assert sink.kept() == outside


async def test_a_copy_inside_one_store_is_only_a_branch(opened: Open, sink: SinkClient, folder: Path) -> None:
    here = opened("here")
    original = await start_session(here)
    await export_session(here, "t-1", folder / "t.zip")
    with pytest.raises(Conflict) as refused:
        await import_session(here, folder / "t.zip")
    assert "--id NEW" in refused.value.hint
    before = transfer.stored_session(here, original.uid)
    copied = await import_session(here, folder / "t.zip", id="t-2")
    assert (copied.session.forked_from, copied.session.sealed_at) == (original.uid, None)
    assert transfer.stored_session(here, original.uid) == before
    assert [one.id async for one in here.sessions()] == ["t-2", "t-1"]
    assert (await run_to_end(here, "t-1", sink)).status == Status.DONE
    assert (await run_to_end(here, "t-2", sink)).status == Status.DONE
    assert bodies(sink) == ["book: once", STYLE, f"{STYLE}: yes", f"{STYLE}: yes", "merge: 7"]


@pytest.mark.slow
@pytest.mark.parametrize("move", [False, True])
async def test_a_branch_is_exported_with_its_lineage(
    target: str, opened: Open, sink: SinkClient, folder: Path, move: bool
) -> None:
    here, there = opened("here"), opened(target)
    root = await start_session(here)
    await run_to_end(here, "t-1", sink)
    asked = next(one for one in transfer.stored_session(here, root.uid).events if one["kind"] == "session.parked")
    await here.fork("t-1", at=asked["number"], id="b-1")
    await here.run("b-1")
    branch = await here.fork("b-1", id="b-2")
    outside = bodies(sink)
    done = await export_session(here, "b-2", folder / "b.zip", move=move)
    assert (done.counts["session"], "2 it was forked from" in done.notes[0]) == (3, True)
    arrived = await import_session(there, folder / "b.zip")
    assert (arrived.session.uid == branch.uid) == move
    assert {one.sealed_at is None async for one in there.sessions() if one.id != "b-2"} == {False}
    ended = await run_to_end(there, "b-2", sink)
    assert (ended.status, bodies(sink)) == (Status.DONE, sorted([*outside, f"{STYLE}: yes"]))
    for uid in await everything(there):
        transfer.verify(there, uid)


async def test_erased_events_stay_erased_on_both_sides(opened: Open, folder: Path) -> None:
    here, there = opened("here"), opened("there")
    uid = (await here.start(travel_talk.bind(), id="t-1")).uid
    await here.store.write(inbox.receive(uid, "ada", "m-1", "my secret is 42"))
    number = (await here.get(uid)).cursor
    await export_session(here, "t-1", folder / "told.zip")
    await import_session(there, folder / "told.zip")
    assert b"my secret" in there_body(there, uid, number)
    await here.store.write(event.erase(uid, "ada", [number], because="a person asked"))
    await export_session(here, "t-1", folder / "erased.zip")
    await import_session(there, folder / "erased.zip", id="t-2")
    assert there_body(there, uid, number) == b"null"
    transfer.verify(there, uid)
    await import_session(there, folder / "told.zip")
    assert there_body(there, uid, number) == b"null"


def there_body(rt: Runtime, uid: str, number: int) -> bytes:
    return msgspec.json.encode(transfer.stored_session(rt, uid).events[number - 1]["body"])


async def test_the_same_state_gives_the_same_bytes(opened: Open, sink: SinkClient, folder: Path) -> None:
    """Also from another database, where rows come in another order."""
    here = opened("here")
    uid = (await start_session(here)).uid
    origin = BundleOrigin(mode=COPY, copy="c" * 32, store="s", by="ada", at=1)
    line = here.store.read_now(session_export.read_lineage, uid)
    made = []
    for number in range(2):
        for suffix in (".zip", ""):
            path = folder / f"{number}{suffix}"
            write(path, compose(line, origin, here.values.directory)[0])
            made.append(path)
        for kept in line:
            for rows in kept.tables.values():
                rows.reverse()
    assert made[0].read_bytes() == made[2].read_bytes()
    assert content(made[1]) == content(made[3])
    with zipfile.ZipFile(made[0]) as packed:
        assert {one.filename: packed.read(one) for one in packed.infolist()} == content(made[1])
        assert packed.infolist()[0].filename == MANIFEST


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def test_a_lease_is_not_exported(opened: Open, sink: SinkClient, folder: Path) -> None:
    here, there = opened("here"), opened("there")
    view = await here.start(travel_talk.bind(), id="t-1")
    await here.store.write(lease.acquire(view.uid, "worker-1", nonce="a-secret-nonce", ttl=60_000_000))
    await export_session(here, "t-1", folder / "t")
    assert b"a-secret-nonce" not in b"".join(content(folder / "t").values())
    await import_session(there, folder / "t")
    assert (await there.get(view.uid)).status == Status.READY


@pytest.mark.slow
@pytest.mark.databases("sqlite", "postgres")
async def test_a_long_log_is_exported_and_imported(target: str, opened: Open, folder: Path) -> None:
    """Thousands of rows in one transaction, and content that compresses so well that it could be refused as a bomb."""
    here, there = opened("here"), opened(target)
    uid = (await here.start(travel_talk.bind(), id="t-1")).uid
    for number in range(3000):
        await here.store.write(inbox.receive(uid, "ada", f"m-{number}", "x" * (20_000 if number < 300 else 10)))
    await export_session(here, "t-1", folder / "t.zip")
    assert (await import_session(there, folder / "t.zip")).counts["event"] == 3001
    transfer.verify(there, uid)


@pytest.mark.databases("sqlite", "postgres")
@pytest.mark.parametrize("move", [False, True])
async def test_concurrent_imports_of_a_bundle_import_it_once(
    target: str, opened: Open, sink: SinkClient, folder: Path, move: bool
) -> None:
    here, there = opened("here"), [opened(target) for _ in range(3)]
    uid = (await start_session(here)).uid
    done = await export_session(here, "t-1", folder / "t.zip", move=move)
    came = await asyncio.gather(*(import_session(rt, folder / "t.zip") for rt in there))
    assert sorted(one.changed for one in came) == [False, False, True]
    assert {one.session.uid for one in came} == {done.copy or uid}
    transfer.verify(there[0], uid)
    assert transfer.stored_session(there[0], uid).tables == transfer.stored_session(here, uid).tables
