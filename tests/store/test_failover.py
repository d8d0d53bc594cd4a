"""A living process across a change of server: real servers, a real promotion, connections of every age."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg import sql

from perdure.domain.restore import Cause
from perdure.errors import CommitUnknown, StoreUnavailable
from perdure.store import event, lease, meta, restore
from perdure.store import session as sessions
from perdure.store.databases.postgres import PostgreSQL
from perdure.store.databases.postgres_connection import Connection
from perdure.store.move import Log, Transaction, outsider_move, plain_move
from perdure.store.ticket import reading
from perdure.testing.postgres import PostgresServer
from perdure.testing.proxy import wait_until
from perdure.testing.standby import Standby
from tests.memory import MEMORY

CANCEL = "select count(pg_cancel_backend(pid)) from pg_stat_activity where wait_event = 'SyncRep'"
pytestmark = [pytest.mark.postgres, pytest.mark.slow]


@pytest.fixture
def pair() -> Iterator[tuple[PostgresServer, Standby]]:
    with PostgresServer(MEMORY) as primary, Standby(primary, MEMORY) as standby:
        yield primary, standby


def epochs(tx: Transaction) -> list[tuple[int, str]]:
    return [(one.epoch, one.cause) for one in restore.everything(tx)]


@plain_move
def epochs_as_a_write_sees_them(tx: Transaction) -> list[tuple[int, str]]:
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
            found = first.read(reading(epochs))
        else:
            found = first.write(epochs_as_a_write_sees_them())
        assert found == [(2, Cause.TIMELINE)]
        assert database.restore_epoch == 2
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
        assert early.read(reading(lambda tx: meta.get(tx, "who"))) == "the new primary"
        early.close()
        database.url = url
        with pytest.raises(StoreUnavailable, match="timeline"):
            Connection(database).read(reading(epochs))
        late.close()
    finally:
        database.close()


def test_a_write_that_reaches_another_server_compares_timelines_and_runs_again(postgres_server: PostgresServer) -> None:
    """What a pooler does: the connection stays, and the server behind it is another one."""
    database = PostgreSQL(postgres_server.create_database(), connections=2)
    try:
        connection = Connection(database)
        uid = connection.write(sessions.create(sessions.NewSession(id="s", program="p", arguments={}), by="ada")).uid
        holder = connection.write(lease.acquire(uid, "w", nonce="n", ttl=10**9))
        for move in (event.append(holder, "note"), lease.renew(holder, 10**9), meta.put("x", "y")):
            before = connection._wire
            before.server -= 1
            connection.write(move)
            assert connection._wire is not before
        assert [line.kind for line in connection.read(reading(lambda tx: event.after(tx, uid, 2)))] == ["note"]
        connection.close()
    finally:
        database.close()


@pytest.mark.parametrize("hot", [True, False])
def test_a_commit_that_did_not_wait_for_its_standby_is_not_acknowledged(hot: bool) -> None:
    """PostgreSQL answers a cancelled wait with a warning: the commit is on this server, and may be on no other."""
    with PostgresServer(MEMORY) as server, psycopg.connect(server.url, autocommit=True) as admin:
        database = PostgreSQL(server.create_database(), connections=2, patience=0.5)
        connection = Connection(database)
        try:
            create = sessions.create(sessions.NewSession(id="s", program="p", arguments={}), by="ada")
            uid = connection.write(create).uid
            holder = connection.write(lease.acquire(uid, "w", nonce="n", ttl=10**9))
            wait_for(admin, "absent")
            with ThreadPoolExecutor(1) as threads:
                written = threads.submit(connection.write, event.append(holder, "note") if hot else note(uid, "ada"))
                wait_until(lambda: bool(admin.execute(CANCEL).fetchall()) and written.done(), "the write has ended")
                assert isinstance(written.exception(), CommitUnknown)
            wait_for(admin, "")
            connection.write(note(uid, "ada"))
        finally:
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
