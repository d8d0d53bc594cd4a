"""A living process across a change of server: real servers, a real promotion, connections of every age."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from perdure import faults
from perdure.clock import SECOND
from perdure.control.doctor.examination import examine
from perdure.domain.lease import Holder
from perdure.domain.restore import Cause
from perdure.errors import CommitUnknown, LeaseHeld, LeaseLost, StoreUnavailable
from perdure.store import failover
from perdure.store.databases.postgres.connection import Connection
from perdure.store.databases.postgres.database import PostgreSQL
from perdure.store.move import Log, StoreTransaction, outsider_move, plain_move
from perdure.store.moves import event, lease, meta, restore
from perdure.store.moves import session as sessions
from perdure.store.store import Store, open_store
from perdure.store.writer.ticket import read_move
from perdure.testing.postgres import PostgresServer
from perdure.testing.proxy import wait_until
from perdure.testing.standby import FailoverServers, Standby
from tests.memory import MEMORY
from tests.store.support.sessions import a_session

CANCEL = "select count(pg_cancel_backend(pid)) from pg_stat_activity where wait_event = 'SyncRep'"
pytestmark = [pytest.mark.postgres, pytest.mark.slow]


@pytest.fixture(scope="module")
def succession() -> Iterator[FailoverServers]:
    with FailoverServers(MEMORY) as servers:
        yield servers


@pytest.fixture
def pair(succession: FailoverServers) -> Iterator[tuple[PostgresServer, Standby]]:
    with succession.pair() as servers:
        yield servers


@pytest.fixture
def loose_pair(succession: FailoverServers) -> Iterator[tuple[PostgresServer, Standby]]:
    """The primary does not wait for its standby."""
    with succession.pair(synchronous=False) as servers:
        yield servers


def epochs(tx: StoreTransaction) -> list[tuple[int, str]]:
    return [(one.epoch, one.cause) for one in restore.listing(tx)]


@plain_move
def epochs_as_a_write_sees_them(tx: StoreTransaction) -> list[tuple[int, str]]:
    tx.send("meta.put", key="x", value="y")
    return epochs(tx)


@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_first_connection_compares_timelines_before_its_first_statement(
    kind: str, pair: tuple[PostgresServer, Standby]
) -> None:
    primary, standby = pair
    database = PostgreSQL(standby.url_of_both(primary.create_database()), connections=2)
    try:
        primary.kill()
        standby.promote()
        first = Connection(database)
        if kind == "read":
            found = first.read(read_move(epochs))
        else:
            found = first.write(epochs_as_a_write_sees_them())
        ((epoch, cause),) = found
        assert (database.restore_epoch, cause) == (epoch, Cause.TIMELINE)
        first.close()
    finally:
        database.close()


def test_a_process_that_saw_the_new_primary_refuses_the_old_one(pair: tuple[PostgresServer, Standby]) -> None:
    primary, standby = pair
    url = primary.create_database()
    database = PostgreSQL(url, connections=2)
    try:
        early = Connection(database)
        early.write(meta.put("who", "the old primary"))
        standby.promote()
        database.url = standby.url_of(url.rpartition("/")[2])
        late = Connection(database)
        late.write(meta.put("who", "the new primary"))
        assert early.read(read_move(lambda tx: meta.get(tx, "who"))) == "the new primary"
        early.close()
        database.url = url
        with pytest.raises(StoreUnavailable, match="timeline"):
            Connection(database).read(read_move(epochs))
        late.close()
    finally:
        database.close()


def test_a_write_that_reaches_another_server_compares_timelines_and_runs_again(succession: FailoverServers) -> None:
    """What a pooler does: the connection stays, and the server behind it is another one."""
    database = PostgreSQL(succession.primary.create_database(), connections=2)
    try:
        connection = Connection(database)
        uid = connection.write(sessions.create(sessions.NewSession(id="s", program="p", arguments={}), by="ada")).uid
        holder = connection.write(lease.acquire(uid, "w", nonce="n", ttl=10**9))
        for move in (event.append(holder, "note"), lease.renew(holder, 10**9), meta.put("x", "y")):
            before = connection._pipeline
            before.server -= 1
            connection.write(move)
            assert connection._pipeline is not before
        assert [line.kind for line in connection.read(read_move(lambda tx: event.after(tx, uid, 2)))] == ["note"]
        connection.close()
    finally:
        database.close()


@pytest.mark.parametrize("hot", [True, False])
def test_a_commit_that_did_not_wait_for_its_standby_is_not_acknowledged(hot: bool, succession: FailoverServers) -> None:
    """PostgreSQL answers a cancelled wait with a warning: the commit is on this server, and may be on no other."""
    with psycopg.connect(succession.primary.url, autocommit=True) as admin:
        database = PostgreSQL(succession.primary.create_database(), connections=2, patience=0.5)
        connection = Connection(database)
        try:
            create = sessions.create(sessions.NewSession(id="s", program="p", arguments={}), by="ada")
            uid = connection.write(create).uid
            holder = connection.write(lease.acquire(uid, "w", nonce="n", ttl=10**9))
            wait_for(admin, "absent")
            with ThreadPoolExecutor(1) as threads:

                def is_unknown() -> bool:
                    """The server takes up the setting in two steps, so the first commits may not wait yet."""
                    move = event.append(holder, "note") if hot else note(uid, "ada")
                    written = threads.submit(connection.write, move)
                    wait_until(lambda: bool(admin.execute(CANCEL).fetchall()) and written.done(), "the write has ended")
                    return isinstance(written.exception(), CommitUnknown)

                assert any(is_unknown() for _ in range(20))
            wait_for(admin, "")
            connection.write(note(uid, "ada"))
        finally:
            wait_for(admin, "")
            connection.close()
            database.close()


@outsider_move
def note(log: Log) -> None:
    log.append("note")


def wait_for(admin: psycopg.Connection[Any], standbys: str) -> None:
    """Set which standbys a commit waits for, and see that the server has taken it up."""
    admin.execute(sql.SQL("alter system set synchronous_standby_names = {}").format(standbys))
    admin.execute("select pg_reload_conf()")
    shown = lambda: admin.execute("show synchronous_standby_names").fetchone() == (standbys,)  # noqa: E731
    wait_until(shown, "the setting is in force")


TTL = 60 * SECOND


def acquire(store: Store, name: str = "s") -> Holder:
    """A session, held as a worker holds it."""
    holder = store.write_now(lease.acquire(a_session(store, name).uid, "w", nonce=f"n-{name}", ttl=TTL))
    holder.boot_deadline = store.clock.boot() + TTL
    return holder


def kinds(store: Store, uid: str) -> list[str]:
    return [line.kind for line in store.read_now(event.after, uid, 0)]


def under_restore(store: Store, uid: str) -> bool:
    return store.read_now(lambda tx: restore.unreleased_for(tx, uid)) is not None


def doctor_text(store: Store) -> str:
    return "\n".join(finding.what for finding in examine(store.target).findings)


def test_a_synchronous_failover_keeps_leases_and_is_no_restore(pair: tuple[PostgresServer, Standby]) -> None:
    primary, standby = pair
    with open_store(standby.url_of_both(primary.create_database()), connections=2) as store:
        holder, idle = acquire(store), a_session(store, "idle")
        primary.kill()
        standby.promote()
        store.write_now(event.append(holder, "note"))
        store.write_now(lease.renew(holder, TTL))
        assert kinds(store, holder.uid)[-2:] == ["lease.kept", "note"]
        (found,) = store.read_now(restore.listing)
        assert (found.cause, found.released_by) == (Cause.TIMELINE, failover.BY)
        assert not under_restore(store, idle.uid)
        assert "Nothing was lost" in doctor_text(store)
        store.read_now(event.verify, holder.uid)


def test_without_synchrony_only_what_a_living_holder_vouches_for_continues(
    loose_pair: tuple[PostgresServer, Standby],
) -> None:
    primary, standby = loose_pair
    with open_store(standby.url_of_both(primary.create_database()), connections=2) as store:
        holder, idle = acquire(store), a_session(store, "idle")
        standby.wait_until_caught_up()
        primary.kill()
        standby.promote()
        store.write_now(event.append(holder, "note"))
        assert kinds(store, holder.uid)[-2:] == ["lease.kept", "note"]
        assert not under_restore(store, holder.uid)
        assert under_restore(store, idle.uid)
        (missing,) = store.read_now(failover.missing_writers)
        assert missing.finding == "its last commits did not wait for a standby"
        assert missing.finding in doctor_text(store)
        child = sessions.NewSession(id="child", program="p", arguments={}, parent_uid=holder.uid, parent_wait="w")
        assert not under_restore(store, store.write_now(sessions.create(child, by="w")).uid)
        store.write_now(restore.release(by="ada", because="looked"))
        assert store.read_now(failover.missing_writers) == []
        assert not under_restore(store, idle.uid)


def test_a_holder_whose_acknowledged_event_is_lost_loses_its_lease(loose_pair: tuple[PostgresServer, Standby]) -> None:
    primary, standby = loose_pair
    with open_store(standby.url_of_both(primary.create_database()), connections=2) as store:
        holder, idle = acquire(store), acquire(store, "idle")
        standby.wait_until_caught_up()
        standby.cut_off()
        store.write_now(event.append(holder, "note"))
        primary.kill()
        standby.promote()
        for lost in (holder, idle):  # what else this process did may be lost as well
            with pytest.raises(LeaseLost):
                store.write_now(event.append(lost, "note"))
            assert under_restore(store, lost.uid)
        (missing,) = store.read_now(failover.missing_writers)
        assert missing.finding is not None
        assert f"event 3 of session {holder.uid}" in missing.finding


def test_a_failover_is_concluded_when_the_last_writer_has_vouched(pair: tuple[PostgresServer, Standby]) -> None:
    primary, standby = pair
    url = standby.url_of_both(primary.create_database())
    with open_store(url, connections=2) as early, open_store(url, connections=2) as late:
        holder, other, idle = acquire(early), acquire(late, "other"), a_session(early, "idle")
        primary.kill()
        standby.promote()
        early.write_now(event.append(holder, "note"))
        assert (under_restore(early, holder.uid), under_restore(early, idle.uid)) == (False, True)
        late.write_now(event.append(other, "note"))
        assert not under_restore(early, idle.uid)
        assert kinds(late, other.uid)[-2:] == ["lease.kept", "note"]


def test_a_holder_with_an_expired_lease_waits_for_the_conclusion(
    pair: tuple[PostgresServer, Standby],
) -> None:
    primary, standby = pair
    url = standby.url_of_both(primary.create_database())
    with open_store(url, connections=2) as early, open_store(url, connections=2) as late:
        holder = acquire(early)
        a_session(late, "other")
        holder.boot_deadline = 0
        primary.kill()
        standby.promote()
        assert isinstance(early.database, PostgreSQL)
        early.database.patience = 0.3
        with pytest.raises(LeaseLost, match="not known"):
            early.write_now(event.append(holder, "note"))
        a_session(late, "another")
        early.write_now(event.append(holder, "note"))
        assert kinds(early, holder.uid)[-2:] == ["lease.kept", "note"]


def test_a_declared_restore_is_never_taken_for_a_failover(pair: tuple[PostgresServer, Standby]) -> None:
    primary, standby = pair
    with open_store(standby.url_of_both(primary.create_database()), connections=2) as store:
        holder = acquire(store)
        store.write_now(restore.declare(by="ada", because="a disk was put back", known=0))
        primary.kill()
        standby.promote()
        with pytest.raises(LeaseLost):
            store.write_now(event.append(holder, "note"))
        assert under_restore(store, holder.uid)


def test_no_takeover_within_one_lease_of_the_switch(pair: tuple[PostgresServer, Standby]) -> None:
    primary, standby = pair
    url = standby.url_of_both(primary.create_database())
    with open_store(url, connections=2) as store, open_store(url, connections=2) as other:
        uid = a_session(store).uid
        store.write_now(lease.acquire(uid, "w", nonce="n", ttl=0))
        a_session(other, "other")
        primary.kill()
        standby.promote()
        for taker in (other, open_store(url, connections=2)):
            with taker, pytest.raises(LeaseHeld):
                taker.write_now(lease.acquire(uid, "v", nonce="m", ttl=TTL))
        store.write_now(lease.acquire(uid, "v", nonce="m", ttl=1))


WRITER = """
import os, signal, sys
from perdure.store.store import open_store
from tests.store.support.sessions import a_session
with open_store(sys.argv[1], connections=2) as store:
    a_session(store, "dead")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("readable", [True, False])
def test_the_next_process_on_a_host_vouches_for_one_that_died(
    readable: bool, pair: tuple[PostgresServer, Standby], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(folder))
    primary, standby = pair
    url = standby.url_of_both(primary.create_database())
    assert subprocess.run([sys.executable, "-c", WRITER, url], check=False).returncode == -signal.SIGKILL
    (left,) = [path for path in folder.rglob("*") if path.is_file()]
    if not readable:
        left.write_bytes(b"")
    primary.kill()
    standby.promote()
    with open_store(url, connections=2) as store:
        uid = store.read_now(sessions.get_by_id, "dead").uid
        assert under_restore(store, uid)
        a_session(store, "alive")
        assert under_restore(store, uid) is not readable
        findings = [one.finding for one in store.read_now(failover.missing_writers)]
        assert findings == ([] if readable else ["what it had noted cannot be read"])
        assert not left.exists()


def test_a_writer_that_leaves_in_order_is_not_waited_for(
    pair: tuple[PostgresServer, Standby], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(folder))
    primary, standby = pair
    url = standby.url_of_both(primary.create_database())
    with open_store(url, connections=2) as store:
        with open_store(url, connections=2) as brief:
            idle = a_session(brief)
        a_session(store, "other")
        primary.kill()
        standby.promote()
        a_session(store, "another")
        assert not under_restore(store, idle.uid)
    assert [path for path in folder.rglob("*") if path.is_file()] == []


def test_a_commit_on_the_old_primary_is_repeated_on_the_new_one(
    loose_pair: tuple[PostgresServer, Standby],
) -> None:
    """Split brain: the old primary lives, and answers a commit after this process has seen the new one."""
    primary, standby = loose_pair
    url = primary.create_database()
    with open_store(url, connections=2) as store:
        database = store.database
        assert isinstance(database, PostgreSQL)
        holder = acquire(store)
        standby.wait_until_caught_up()
        standby.cut_off()

        def switch(point: str) -> None:
            if point == "commit.after":
                faults.disarm()
                standby.promote()
                database.url = standby.url_of(url.rpartition("/")[2])
                other = Connection(database, 9)
                other.read(read_move(epochs))
                other.close()

        faults.arm(switch)
        store.write_now(event.append(holder, "note"))
        assert kinds(store, holder.uid) == ["session.created", "lease.acquired", "lease.kept", "note"]
