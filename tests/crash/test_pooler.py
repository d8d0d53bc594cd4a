"""Behind a real PgBouncer in transaction mode: every transaction may run on another connection of the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import cycle

import psycopg
import pytest

from perdure import Call, Session, program, tool
from perdure.cli.text.doctor import fact_lines
from perdure.control.doctor.examination import examine
from perdure.errors import ConfigError, StoreUnavailable
from perdure.runtime.runtime import open as open_runtime
from perdure.store.databases.postgres.connection import Connection
from perdure.store.databases.postgres.database import PostgreSQL
from perdure.store.move import Row, StoreTransaction, plain_move
from perdure.store.moves import inbox, meta
from perdure.store.store import open_store
from perdure.store.writer.ticket import read_move
from perdure.testing import Sink
from perdure.testing.postgres import PostgresServer
from tests.crash.test_postgres_killed import check, write_through
from tests.store.support.pgbouncer import PgBouncer
from tests.store.support.sessions import a_session

pytestmark = pytest.mark.postgres
SESSIONS, ACTS = 6, 4
TERMINATE = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()
"""


@pytest.fixture(scope="module")
def pooler(victim: PostgresServer) -> Iterator[PgBouncer]:
    with PgBouncer(victim) as running:
        yield running


@pytest.fixture
def database(victim: PostgresServer) -> str:
    return victim.create_database()


def terminate_connections(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as db:
        db.execute(TERMINATE)


def test_writers_behind_a_pooler_survive_its_kills_and_those_of_its_connections(
    pooler: PgBouncer, database: str
) -> None:
    crashes: cycle[Callable[[], None]] = cycle([pooler.restart, lambda: terminate_connections(database)])

    def crash() -> None:
        next(crashes)()

    writers = write_through(pooler.url_of(database), crash, 6)
    assert check("PgBouncer and its connections, under four writers", writers, 6) == []


@pytest.mark.anyio
async def test_sessions_behind_a_pooler_act_once_while_it_is_killed(pooler: PgBouncer, database: str) -> None:
    with Sink() as sink:

        @tool(name="post_pooled", replay="idempotent", inflight="10ms")
        def post(call: Call, number: int) -> None:
            sink.post(call.key, {"of": call.session_id, "number": number})

        @program
        async def posts_pooled(s: Session) -> int:
            for number in range(ACTS):
                await s.do(post, number=number)
            return ACTS

        async with open_runtime(pooler.url_of(database), connections=4) as runtime:
            views = [await runtime.start(posts_pooled.bind()) for _ in range(SESSIONS)]
            running = [asyncio.create_task(runtime.complete(view.id)) for view in views]
            for act in (pooler.restart, lambda: terminate_connections(database), pooler.restart):
                before = len(sink.kept())
                while len(sink.kept()) < before + 2 and not all(one.done() for one in running):
                    await asyncio.sleep(0.01)
                act()  # in this thread: the kernel ends a pooler with the thread that started it
            views = await asyncio.gather(*running)
        assert [view.result for view in views] == [ACTS] * SESSIONS
        assert len(sink.kept()) == SESSIONS * ACTS


def test_a_pooler_that_is_not_named_in_the_address_gives_a_hint(pooler: PgBouncer, database: str) -> None:
    with pytest.raises(StoreUnavailable, match="startup") as refused:
        open_store(pooler.url_of(database).partition("?")[0])
    assert "perdure_pooler=transaction" in refused.value.hint


def test_a_new_store_behind_a_pooler_needs_the_direct_address(pooler: PgBouncer, database: str) -> None:
    with pytest.raises(ConfigError, match="perdure_direct_url"):
        open_store(pooler.url_of(database, direct=False))
    with open_store(pooler.url_of(database)) as store:
        store.write_now(meta.put("a", "b"))
    with open_store(pooler.url_of(database, direct=False)) as store:
        assert store.read_now(lambda tx: meta.get(tx, "a")) == "b"


@pytest.mark.anyio
@pytest.mark.parametrize("direct", [True, False])
async def test_changes_by_other_processes_are_noticed_behind_a_pooler(
    direct: bool, pooler: PgBouncer, database: str
) -> None:
    """By notifications through the direct address, or by a poll."""
    open_store(database).close()
    with open_store(pooler.url_of(database, direct=direct)) as reader, open_store(pooler.url_of(database)) as writer:
        uid = a_session(writer).uid
        following = reader.follow(uid, 1, poll=600)
        found = asyncio.ensure_future(anext(following))
        while not reader.wakeups.has_waiters.is_set():
            await asyncio.sleep(0.01)
        await writer.write(inbox.receive(uid, "ada", "m", {}))
        assert (await asyncio.wait_for(found, 120)).kind == "inbox.received"


@pytest.mark.parametrize("direct", [True, False])
def test_the_doctor_reports_a_pooler_without_direct_address(direct: bool, pooler: PgBouncer, database: str) -> None:
    open_store(database).close()
    report = examine(pooler.url_of(database, direct=direct))
    assert (report.pooler, report.direct) == ("transaction", direct)
    assert "a process opens up to 16" in dict(fact_lines(report))["connections"]
    assert any("perdure_direct_url" in finding.do for finding in report.findings) is not direct


def test_a_read_behind_a_pooler_notices_another_server(pooler: PgBouncer, database: str) -> None:
    server = PostgreSQL(pooler.url_of(database), connections=1)
    connection = Connection(server)
    try:
        connection.read(read_move(meta.properties))
        started = connection._at.started
        connection._pipeline.server = started - 1
        assert connection.read(read_move(meta.properties))["store_id"]
        assert connection._pipeline.server == started
    finally:
        connection.close()
        server.close()


def sleep(tx: StoreTransaction) -> list[Row]:
    return tx.execute("select pg_sleep(0.8)", [])


@plain_move
def sleep_in_a_move(tx: StoreTransaction) -> list[Row]:
    return sleep(tx)


def test_role_limits_do_not_apply_behind_a_pooler(pooler: PgBouncer, database: str) -> None:
    """Neither does anything that one transaction set reach the next one."""
    with open_store(pooler.url_of(database)) as store, psycopg.connect(database, autocommit=True) as db:
        name = database.rpartition("/")[2]
        for limit in ("statement_timeout", "idle_in_transaction_session_timeout"):
            db.execute(f'alter database "{name}" set {limit} = 500'.encode())
        terminate_connections(database)
        assert store.read_now(sleep) == [("",)]
        assert store.write_now(sleep_in_a_move()) == [("",)]
        address = pooler.url_of(database, direct=False).partition("?")[0]
        with psycopg.connect(address, autocommit=True) as other:  # the limits apply to it
            assert other.execute("show statement_timeout").fetchone() == ("500ms",)
