"""A restore rewinds the ledger and not the world: a real file is put back, a real service still has what was done."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import Call, Outcome, Session, program, tool
from perdure.control.doctor.examination import examine
from perdure.domain.lease import RESTORE_SHIFT
from perdure.domain.restore import Cause, Restore
from perdure.errors import ConfigError, Conflict, LeaseLost, NotFound
from perdure.runtime.definitions.program import PROGRAMS
from perdure.runtime.runtime import Runtime, SessionView
from perdure.runtime.runtime import open as open_runtime
from perdure.store.databases.sqlite.location import companion
from perdure.store.move import Move, StoreTransaction, plain_move
from perdure.store.moves import event, lease, meta, restore
from perdure.store.moves import session as sessions
from perdure.store.store import Store, open_store
from perdure.testing import ManualClock, Sink, SinkClient
from perdure.testing.postgres import PostgresServer
from tests.memory import MEMORY
from tests.store.support.sessions import TTL, a_session

RULES = ("idempotent", "probe", "compensate", "escalate")
SHORT = "10ms"


@pytest.fixture(scope="module")
def sink() -> Iterator[Sink]:
    with Sink() as running:
        yield running


def acting(service: SinkClient, replay: Any) -> None:
    """A program that acts once, after a person said so; the tool knows the service as its rule allows."""

    @tool(name="act", replay=replay, inflight=SHORT, retry=2)
    def act(call: Call, n: int) -> None:
        keyed = replay == "idempotent"
        service.post(call.key if keyed else None, {"n": n}, marker=None if keyed else call.key)

    if replay == "probe":

        @act.probe
        def look(call: Call, n: int) -> Outcome:
            return Outcome.happened() if service.find(key=call.key) else Outcome.absent()

    if replay == "compensate":

        @act.undo
        def take_back(call: Call, result: None, n: int) -> None:
            service.delete(key=call.undoes)

    @program
    async def acts(s: Session) -> str:
        await s.ask("Now?", choices=["yes"])
        await s.do(act, n=1)
        return "acted"


async def begin(runtime: Runtime) -> None:
    await runtime.start(PROGRAMS["acts"].bind(), id="s")
    assert (await runtime.run("s")).status == "waiting"


async def answer(runtime: Runtime) -> SessionView:
    """Say yes, and see it through, timers included."""
    (asked,) = (await runtime.get("s")).waits
    await runtime.answer(asked.id, "yes")
    return await settled(runtime)


async def settled(runtime: Runtime) -> SessionView:
    view = await runtime.run("s")
    while view.waits and view.waits[0].kind == "timer":
        seen = runtime.store.wakeups.version
        await runtime.store.wakeups.wait(seen, view.uid, 0.01)
        view = await runtime.run("s")
    return view


def put_back(path: Path, backup: Path) -> None:
    """What people do: copy an older file over the store. What lies beside it stays."""
    path.with_name(path.name + "-wal").unlink(missing_ok=True)
    path.with_name(path.name + "-shm").unlink(missing_ok=True)
    shutil.copy(backup, path)


async def live_twice(folder: Path, service: SinkClient, replay: Any) -> tuple[SessionView, Path]:
    """Act, put the file of before back, and act again as far as that goes."""
    acting(service, replay)
    path, backup = folder / "perdure.db", folder / "backup.db"
    async with open_runtime(path) as runtime:
        await begin(runtime)
    shutil.copy(path, backup)
    async with open_runtime(path) as runtime:
        assert (await answer(runtime)).result == "acted"
    put_back(path, backup)
    async with open_runtime(path) as runtime:
        return await answer(runtime), path


def declare(known: int = 0) -> Move[Restore]:
    return restore.declare(by="ada", because="from a backup", known=known)


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("replay", RULES)
async def test_a_file_that_is_put_back_does_nothing_twice(replay: Any, folder: Path, sink: Sink) -> None:
    service = sink.run()
    view, path = await live_twice(folder, service, replay)
    assert len(service.kept()) == 1
    with open_store(path) as store:
        (found,) = store.read_now(restore.listing)
        assert (found.epoch, found.cause, found.released_at) == (1, Cause.WITNESS, None)
        store.read_now(event.verify, view.uid)
        assert store.read_now(sessions.get, view.uid).lease_epoch >> RESTORE_SHIFT == 1
    if replay != "escalate":
        assert view.result == "acted"
        return
    (asked,) = view.waits
    assert asked.kind == "doubt"
    assert "The store was put back" in asked.detail["why"]
    async with open_runtime(path) as runtime:
        await runtime.settle(str(asked.ref), "happened", by="ada", because="the service has it")
        assert (await settled(runtime)).result == "acted"
    assert len(service.kept()) == 1


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("replay", RULES)
async def test_without_the_rule_a_restored_file_acts_twice(
    replay: Any, folder: Path, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: what was put back is taken for what is true."""
    monkeypatch.setattr(restore, "unreleased_for", lambda tx, session: None)
    service = sink.run()
    view, _ = await live_twice(folder, service, replay)
    assert view.result == "acted"
    assert len(service.kept()) == (1 if replay == "idempotent" else 2)


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.databases("sqlite", "files", "postgres")
@pytest.mark.parametrize("replay", RULES)
async def test_what_had_not_been_done_is_done_once(replay: Any, target: str, sink: Sink) -> None:
    """The lost time may have been empty: then the rule must not keep anything from being done."""
    service = sink.run()
    acting(service, replay)
    async with open_runtime(target) as runtime:
        await begin(runtime)
        await runtime.store.write(declare())
    async with open_runtime(target) as runtime:
        view = await answer(runtime)
        if replay == "escalate":
            (asked,) = view.waits
            await runtime.settle(str(asked.ref), "absent", by="ada", because="the service has nothing")
            view = await settled(runtime)
        assert view.result == "acted"
    assert len(service.kept()) == 1


@pytest.mark.slow
@pytest.mark.anyio
async def test_after_a_restore_planned_effects_may_have_happened(folder: Path, sink: Sink) -> None:
    acting(sink.run(), "probe")
    path = folder / "perdure.db"
    async with open_runtime(path, policy=lambda intent: "ask") as runtime:
        await begin(runtime)
        (approval,) = (await answer(runtime)).waits
        await runtime.approve(approval.id, by="ada", because="yes")
        await runtime.store.write(declare())
        (planned,) = await runtime.recovery_plan("s")
        assert (planned.action, planned.state) == ("probe", "dispatched")
        assert "put back" in planned.why


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_session_begun_after_the_restore_is_not_asked_about(folder: Path, sink: Sink) -> None:
    acting(sink.run(), "escalate")
    with open_store(folder / "perdure.db") as store:
        store.write_now(declare())
    async with open_runtime(folder / "perdure.db") as runtime:
        await begin(runtime)
        assert (await answer(runtime)).result == "acted"


@pytest.mark.databases("sqlite", "postgres")
async def test_a_restore_that_is_released_during_a_run_asks_nothing(target: str, sink: Sink) -> None:
    """A run reads at its start that a restore is not released; after a failover that is released moments later."""
    service = sink.run()

    @tool(name="act_later", replay="escalate", inflight=SHORT)
    def act_later() -> None:
        service.post(None, {"n": 1})

    async with open_runtime(target) as runtime:

        def release() -> None:
            runtime.store.write_now(restore.release(by="ada", because="nothing was lost"))

        @program
        async def released_meanwhile(s: Session) -> str:
            await s.step("release", release)
            await s.do(act_later)
            return "acted"

        session = await runtime.start(released_meanwhile.bind())
        await runtime.store.write(declare())
        view = await runtime.run(session.id)
    assert (view.status, [one.kind for one in view.waits], len(service.kept())) == ("done", [], 1)


@pytest.mark.anyio
@pytest.mark.databases("sqlite", "postgres")
async def test_a_process_that_has_the_store_open_obeys_a_declared_restore(target: str, sink: Sink) -> None:
    acting(sink.run(), "escalate")
    async with open_runtime(target) as runtime:
        await begin(runtime)
        with open_store(target) as other:
            other.write_now(declare())
        (asked,) = (await answer(runtime)).waits
        assert asked.kind == "doubt"


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_released_restore_asks_no_more_questions(folder: Path, sink: Sink) -> None:
    acting(sink.run(), "escalate")
    path = folder / "perdure.db"
    async with open_runtime(path) as runtime:
        await begin(runtime)
        await runtime.store.write(declare())
    async with open_runtime(path) as runtime:
        (finding,) = [one for one in examine(str(path)).findings if "set back" in one.what]
        assert "perdure restores --release" in finding.do
        (released,) = await runtime.store.write(restore.release(by="ada", because="nothing was lost"))
        assert (released.released_by, released.released_because) == ("ada", "nothing was lost")
        assert not [one for one in examine(str(path)).findings if "set back" in one.what]
        assert (await answer(runtime)).result == "acted"


def test_a_restore_voids_every_lease_and_begins_a_higher_epoch(store: Store, clock: ManualClock) -> None:
    uid = a_session(store).uid
    old = store.write_now(lease.acquire(uid, "w-1", nonce="n-1", ttl=TTL))
    begun = store.write_now(declare())
    assert (begun.epoch, begun.began_at, store.read_now(meta.get, "restore_epoch")) == (1, clock.now(), "1")
    with pytest.raises(LeaseLost):
        store.write_now(event.append(old, "note"))
    with pytest.raises(LeaseLost):
        store.write_now(lease.renew(old, TTL))
    clock.advance(seconds=TTL)
    new = store.write_now(lease.acquire(uid, "w-2", nonce="n-2", ttl=TTL))
    assert new.epoch == (1 << RESTORE_SHIFT) + 1
    assert store.write_now(declare()).epoch == 1  # the same declaration, written again
    assert store.write_now(declare(known=1)).epoch == 2


def test_a_restore_is_released_once_with_a_reason_and_never_forgotten(store: Store) -> None:
    with pytest.raises(NotFound, match="No restore"):
        store.write_now(restore.release(by="ada", because="why not"))
    store.write_now(declare())
    with pytest.raises(ConfigError, match="reason"):
        store.write_now(restore.release(by="ada", because=" "))
    store.write_now(restore.release(by="ada", because="looked"))
    for statement in ("delete from restore", "update restore set released_by = 'eve'"):
        with pytest.raises(Conflict, match="a restore is"):
            store.write_now(unlawful(statement))


@plain_move
def unlawful(tx: StoreTransaction, statement: str) -> None:
    tx.execute(statement, ())


@pytest.mark.slow
def test_a_witness_without_news_begins_no_restore(folder: Path) -> None:
    path = folder / "perdure.db"
    for number, spoil in enumerate((None, b"", b"nonsense", b"0123456789abcdef {}")):
        with open_store(path) as store:
            a_session(store, f"s-{number}")
            assert store.read_now(restore.listing) == []
        if spoil is not None:
            (companion(path) / "witness").write_bytes(spoil)
    with open_store(path) as store:
        assert store.read_now(restore.listing) == []


@pytest.mark.slow
def test_each_restored_file_is_detected_once_with_a_new_epoch(folder: Path) -> None:
    path, backup = folder / "perdure.db", folder / "backup.db"
    open_store(path).close()
    shutil.copy(path, backup)
    with open_store(path) as store:
        a_session(store)
    for epoch in (1, 2):
        put_back(path, backup)
        for _ in range(2):
            with open_store(path) as store:
                assert [one.epoch for one in store.read_now(restore.listing)] == [epoch]
        with open_store(path) as store:
            a_session(store)


@pytest.mark.postgres
@pytest.mark.databases("postgres")
def test_another_history_of_the_server_begins_a_restore_epoch(target: str) -> None:
    with open_store(target) as store:
        known = store.read_now(meta.get, restore.TIMELINE)
        assert known is not None
        server, _, number = known.partition("/")
        a_session(store)
        assert store.read_now(restore.listing) == []
        store.write_now(meta.put(restore.TIMELINE, f"{server}/{int(number, 16) - 1:08X}"))
    for _ in range(2):
        with open_store(target) as store:
            (found,) = store.read_now(restore.listing)
            assert (found.epoch, found.cause) == (1, Cause.TIMELINE)
            assert store.read_now(meta.get, restore.TIMELINE) == known
            assert store.database.restore_epoch == 1


@pytest.mark.anyio
@pytest.mark.postgres
@pytest.mark.slow
@pytest.mark.parametrize("replay", ["probe", "escalate"])
async def test_a_server_that_was_recovered_to_an_earlier_time_does_nothing_twice(replay: Any, sink: Sink) -> None:
    """A real point-in-time recovery: the data of before, and an archive that has nothing after it."""
    service = sink.run()
    acting(service, replay)
    with PostgresServer(MEMORY) as server:
        url = server.create_database()
        async with open_runtime(url, connections=2) as runtime:
            await begin(runtime)
        server.stop()
        backup = server.folder / "backup"
        shutil.copytree(server.data, backup)
        server.start()
        async with open_runtime(url, connections=2) as runtime:
            assert (await answer(runtime)).result == "acted"
        server.stop()
        recover_from(server, backup)
        server.start()
        async with open_runtime(url, connections=2) as runtime:
            (found,) = await runtime.store.read(restore.listing)
            assert (found.epoch, found.cause) == (2, Cause.TIMELINE)  # never lower than the server's own number
            view = await answer(runtime)
        assert len(service.kept()) == 1
        assert [one.kind for one in view.waits] == (["doubt"] if replay == "escalate" else [])


def recover_from(server: PostgresServer, backup: Path) -> None:
    """Let the server recover from a backup when it starts; it then begins another timeline."""
    for name in [*server.data.iterdir()]:
        shutil.rmtree(name) if name.is_dir() else name.unlink()
    shutil.copytree(backup, server.data, dirs_exist_ok=True)
    (server.data / "recovery.signal").touch()
    with (server.data / "postgresql.auto.conf").open("a") as settings:
        settings.write(
            "restore_command = 'false'\nhot_standby = off\n"
        )  # so that no one reads it before recovery is complete
    for path in [server.data, *server.data.rglob("*")]:
        os.chown(path, server.uid, server.gid)
    server.data.chmod(0o700)


HITS: list[int] = []


@tool
def review_hit(n: int) -> int:
    HITS.append(n)
    return n


@program
async def review_hitter(s: Session) -> int:
    await s.ask("go?")
    return await s.do(review_hit, n=1)


async def test_a_session_log_restored_by_git_does_not_act_twice(folder: Path) -> None:
    HITS.clear()
    place = folder / "files"
    async with perdure.open(f"files:{place}") as rt:
        await rt.start(review_hitter.bind(), id="s")
        view = await rt.run("s")
        await rt.answer(view.waits[0].id, "yes", by="ada")
    kept = {path: shutil.copy(path, folder / path.name) for path in place.rglob("*.jsonl")}
    assert kept
    async with perdure.open(f"files:{place}") as rt:
        assert (await rt.run("s")).status == "done"
    for path, copy in kept.items():
        shutil.copy(copy, path)
    async with perdure.open(f"files:{place}") as rt:
        await rt.run("s")
    assert HITS == [1]
