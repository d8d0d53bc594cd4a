"""Answers that are no answers: from a pooler that lost its server, and from a stream that is out of step."""

from collections.abc import Callable
from typing import Any

import pytest

from perdure.testing.postgres import PostgresServer
from perdure.testing.sweep.server_pool import ServerPool
from tests.crash.support import lost_connections, misled_connections, session_tasks
from tests.crash.support.misleading_proxy import FAULTS
from tests.figures import record

pytestmark = pytest.mark.postgres

OUT_OF_STEP = [fault for fault in FAULTS if fault != "refused"]
POOLER = "the server's end, and the pooler's"


@pytest.fixture(scope="module")
def url(pool: ServerPool, postgres_server: PostgresServer) -> str:
    made = postgres_server.create_database()
    pool.call(session_tasks.make_store, target=made)
    return made


@pytest.fixture
def mislead(pool: ServerPool, url: str) -> Callable[..., list[str]]:
    def mislead(task: Callable[..., Any], **more: Any) -> list[str]:
        found: list[str] = pool.call(task, url=url, **more)
        record("clients misled", ("wrong",), (" ".join([task.__name__, *map(str, more.values())]), len(found)))
        return found

    return mislead


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("work", lost_connections.WORKS)
@pytest.mark.parametrize("fault", OUT_OF_STEP)
def test_a_commit_with_a_misleading_answer_is_searched_for(
    mislead: Callable[..., list[str]], fault: str, work: str, pooled: bool
) -> None:
    assert mislead(misled_connections.misled, fault=fault, work=work, pooled=pooled) == []


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("work", ["append", "use"])
def test_a_lost_commit_is_searched_for_although_connecting_misleads(
    mislead: Callable[..., list[str]], work: str, pooled: bool
) -> None:
    """psycopg reports two results of one statement there, as an error that is not about the connection."""
    assert mislead(misled_connections.misled, fault=POOLER, work=work, pooled=pooled, connecting=True) == []


@pytest.mark.parametrize("work", ["append", "use"])
def test_a_search_that_is_refused_leaves_the_commit_unknown(mislead: Callable[..., list[str]], work: str) -> None:
    assert mislead(misled_connections.misled_search, work=work) == []


@pytest.mark.parametrize("fault", OUT_OF_STEP)
def test_a_read_with_a_misleading_answer_is_repeated(mislead: Callable[..., list[str]], fault: str) -> None:
    assert mislead(misled_connections.misled_read, fault=fault) == []


@pytest.mark.parametrize("fault", [POOLER, "an unreadable row", "fatal, and ready"])
def test_a_function_that_hides_a_misleading_answer_is_run_again(mislead: Callable[..., list[str]], fault: str) -> None:
    assert mislead(misled_connections.misled_function, fault=fault) == []


@pytest.mark.parametrize("work", ["append", "use"])
@pytest.mark.parametrize("fault", ["fatal, and ready", "an unreadable row"])
def test_errors_taken_for_answers_are_caught(
    pool: ServerPool, postgres_server: PostgresServer, fault: str, work: str
) -> None:
    made = postgres_server.create_database()
    pool.call(session_tasks.make_store, target=made)
    plant = "every error an answer"
    found = pool.call(misled_connections.misled, url=made, fault=fault, work=work, pooled=False, plant=plant)
    record("planted bugs", ("caught by", "times"), (plant, f"{fault}, {work}", len(found)))
    assert found != []
