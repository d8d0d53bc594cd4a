"""Connections to PostgreSQL lost around a commit: every unknown commit is resolved, every move is there once."""

import os
import socket
from collections.abc import Callable
from typing import Any

import pytest

from perdure.store.databases.postgres.database import connect
from perdure.testing.postgres import PostgresServer
from perdure.testing.sweep.server_pool import ServerPool
from tests.crash.support import lost_connections, session_tasks
from tests.figures import record

pytestmark = pytest.mark.postgres

CUTS = ("cut_before_commit", "cut_after_commit", "cut_reply_race")
HOT = pytest.mark.parametrize("work", ["append", "step"])


@pytest.fixture(scope="module")
def url(pool: ServerPool, postgres_server: PostgresServer) -> str:
    made = postgres_server.create_database()
    pool.call(session_tasks.make_store, target=made)
    return made


@pytest.fixture
def lose(pool: ServerPool, url: str) -> Callable[..., list[str]]:
    def lose(task: Callable[..., Any], **more: Any) -> list[str]:
        found: list[str] = pool.call(task, url=url, **more)
        record("connections cut", ("wrong",), (" ".join([task.__name__, *map(str, more.values())]), len(found)))
        return found

    return lose


@pytest.mark.parametrize("work", lost_connections.WORKS)
@pytest.mark.parametrize("mode", CUTS)
def test_a_move_cut_around_its_commit_happens_once(lose: Callable[..., list[str]], mode: str, work: str) -> None:
    assert lose(lost_connections.cut, mode=mode, work=work) == []


def test_a_commit_under_way_is_waited_for(lose: Callable[..., list[str]]) -> None:
    assert lose(lost_connections.late_under_the_lock) == []


@HOT
def test_a_statement_that_lands_after_the_check_is_not_repeated(lose: Callable[..., list[str]], work: str) -> None:
    assert lose(lost_connections.late_before_the_retry, work=work) == []


@HOT
def test_a_statement_that_lands_after_its_retry_has_no_effect(lose: Callable[..., list[str]], work: str) -> None:
    assert lose(lost_connections.late_after_the_retry, work=work) == []


def test_a_commit_under_way_for_too_long_is_unknown(lose: Callable[..., list[str]]) -> None:
    assert lose(lost_connections.never_lands) == []


@pytest.mark.parametrize("work", lost_connections.WORKS)
def test_a_commit_is_unknown_when_the_server_is_gone(lose: Callable[..., list[str]], work: str) -> None:
    assert lose(lost_connections.server_is_gone, work=work) == []


def test_a_connection_lost_while_idle_is_replaced(lose: Callable[..., list[str]]) -> None:
    assert lose(lost_connections.idle_connection_was_lost) == []


@pytest.mark.slow
@pytest.mark.parametrize("work", ["append", "use"])
@pytest.mark.parametrize("healed", [True, False])
def test_a_stalled_partition_frees_the_client(lose: Callable[..., list[str]], work: str, healed: bool) -> None:
    assert lose(lost_connections.stalled, work=work, healed=healed) == []


@pytest.mark.slow
def test_a_stalled_partition_frees_a_reader(lose: Callable[..., list[str]]) -> None:
    assert lose(lost_connections.stalled_read) == []


def test_a_vanished_server_is_noticed_within_seconds(url: str) -> None:
    """No data of ours is under way then, so only keepalives show it; those of the kernel begin after two hours."""
    with connect(url) as db, socket.socket(fileno=os.dup(db.fileno())) as line:
        idle, between, count = (
            line.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
    assert idle + between * count < 30
