"""Time limits that a server, a database or a role sets do not break the store."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psycopg
import pytest

from perdure.store.move import StoreTransaction, plain_move
from perdure.store.moves import meta
from perdure.store.store import open_store
from perdure.testing.postgres import PostgresServer
from perdure.testing.proxy import wait_until

pytestmark = pytest.mark.postgres
LIMITS = ("statement_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout", "transaction_timeout")
ALIVE = "select pid from pg_stat_activity where datname = current_database() and application_name = 'perdure'"


@pytest.fixture
def strict_database(postgres_server: PostgresServer) -> Iterator[str]:
    """A database whose connections have 100 ms for everything."""
    url = postgres_server.create_database()
    open_store(url).close()
    with psycopg.connect(url, autocommit=True) as db:
        for limit in LIMITS:
            db.execute(f'alter database "{db.info.dbname}" set {limit} = 100'.encode())
    yield url
    postgres_server.drop_database(url)


def work_slowly(tx: StoreTransaction) -> None:
    tx.execute("select pg_sleep(0.2)", [])
    time.sleep(0.2)
    tx.execute("select 1", [])


@plain_move
def write_slowly(tx: StoreTransaction) -> None:
    work_slowly(tx)
    tx.send("meta.put", key="slow", value="written")


def test_limits_of_the_database_do_not_end_transactions(strict_database: str) -> None:
    with open_store(strict_database) as store:
        store.read_now(work_slowly)
        store.write_now(write_slowly())
        assert store.read_now(lambda tx: meta.get(tx, "slow")) == "written"


def test_limits_of_the_database_do_not_end_idle_connections(strict_database: str) -> None:
    none = "%20".join(f"-c%20{limit}%3D0" for limit in LIMITS)
    with psycopg.connect(f"{strict_database}?options={none}", autocommit=True) as db:
        with open_store(strict_database, connections=1) as store:
            store.write_now(meta.put("a", "b"))
            store.read_now(meta.properties)
            alive = set(db.execute(ALIVE).fetchall())
            with psycopg.connect(strict_database) as idle:  # when the server has ended this one, it had the time
                wait_until(lambda: is_ended(db, idle.info.backend_pid), "the server ends idle connections")
            assert alive <= set(db.execute(ALIVE).fetchall())


def is_ended(db: psycopg.Connection[tuple[object, ...]], pid: int) -> bool:
    return db.execute("select 1 from pg_stat_activity where pid = %s", [pid]).fetchone() is None


def test_limits_in_the_address_win(strict_database: str) -> None:
    with open_store(f"{strict_database}?options=-c%20statement_timeout%3D7s") as store:
        assert store.read_now(lambda tx: tx.execute("show statement_timeout", [])) == [("7s",)]
