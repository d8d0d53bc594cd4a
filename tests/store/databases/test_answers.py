"""Which errors are answers of a PostgreSQL server. Every other one proves nothing about what was sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import errors

from perdure.errors import ConfigError, StoreUnavailable
from perdure.store.databases.postgres.database import connect
from perdure.store.databases.postgres.errors import is_answer
from perdure.store.databases.postgres.pipeline import bind, out_of_step
from perdure.store.store import open_store
from perdure.testing.postgres import PostgresServer
from tests.crash.support.misleading_proxy import PLAIN, MisleadingProxy

pytestmark = pytest.mark.postgres
Database = psycopg.Connection[Any]


@pytest.fixture(scope="module")
def url(postgres_server: PostgresServer) -> str:
    made = postgres_server.create_database()
    open_store(made).close()
    return made


@pytest.fixture
def db(url: str) -> Iterator[Database]:
    opened = connect(url)
    yield opened
    opened.close()


def error_of(act: Callable[[], object]) -> psycopg.Error:
    with pytest.raises(psycopg.Error) as caught:
        act()
    return caught.value


def raising(code: str) -> str:
    return f"do $$ begin raise exception 'refused' using errcode = '{code}'; end $$"


@pytest.mark.parametrize(
    "statement",
    [
        "select 1/0",
        "select nothing",
        "nonsense",
        raising("23505"),
        raising("40001"),
        raising("42501"),
        raising("53100"),
        raising("55P03"),
        raising("57014"),
        raising("PD001"),
        raising("XX000"),
    ],
)
def test_an_error_of_a_statement_is_an_answer(db: Database, statement: str) -> None:
    assert is_answer(error_of(lambda: db.execute(statement)))


def test_a_transaction_that_has_failed_is_an_answer(db: Database) -> None:
    db.execute("begin")
    error_of(lambda: db.execute("select 1/0"))
    assert is_answer(error_of(lambda: db.execute("select 1")))


@pytest.mark.parametrize("code", ["08000", "08006", "08P01", "40003", "57P01", "57P03"])
def test_an_error_of_a_connection_is_no_answer(db: Database, code: str) -> None:
    assert not is_answer(error_of(lambda: db.execute(raising(code))))


def test_the_end_of_a_connection_is_no_answer(db: Database) -> None:
    ended = error_of(lambda: db.execute("select pg_terminate_backend(pg_backend_pid())"))
    assert (type(ended), is_answer(ended)) == (errors.AdminShutdown, False)
    assert not is_answer(error_of(lambda: db.execute("select 1")))


def test_a_command_while_another_is_in_progress_has_no_answer(db: Database) -> None:
    db.pgconn.send_query(b"select 1")
    busy = error_of(lambda: db.execute("select 2"))
    assert "already in progress" in str(busy)
    assert not is_answer(busy)


def test_several_results_of_one_statement_are_no_answer(db: Database) -> None:
    several = error_of(lambda: db.wait(db._exec_command(b"select 1; select 2")))
    assert str(several).startswith("received 2 results from command")
    assert not is_answer(several)


@pytest.mark.parametrize(
    "error",
    [
        psycopg.InternalError("received 2 results from command 'COMMIT'"),
        psycopg.InterfaceError("unexpected result COPY_IN from command 'COMMIT'"),
        psycopg.ProgrammingError("the last operation didn't produce records"),
        psycopg.DatabaseError('unexpected field count in "D" message'),
        psycopg.OperationalError("the connection is closed"),
        errors.PipelineAborted("pipeline aborted"),
        out_of_step("two statements were answered once"),
        TimeoutError("not of the driver"),
    ],
)
def test_what_has_no_code_of_the_server_is_no_answer(error: Exception) -> None:
    assert not is_answer(error)


def test_a_number_that_does_not_fit_is_refused_before_it_is_sent() -> None:
    with pytest.raises(ConfigError, match="does not fit into 64 bits"):
        bind("event.of_move", {"uid": "u", "number": 2**63, "move_id": "m"})


@pytest.mark.parametrize("fault", ["the server's end, and the pooler's", "an unreadable row", "one answer too few"])
def test_a_store_whose_opening_is_answered_out_of_step_is_unavailable(url: str, fault: str) -> None:
    with MisleadingProxy(url) as proxy:
        proxy.arm(fault, b"select", times=100)
        with pytest.raises(StoreUnavailable):
            open_store(f"{proxy.url}?{PLAIN}")
