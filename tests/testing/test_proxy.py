"""The proxy with a real server and a real driver: which statements land, and which answers are lost."""

import socket
import threading
from collections.abc import Callable, Iterator

import psycopg
import pytest

from perdure.errors import ConfigError
from perdure.testing.postgres import PostgresServer
from perdure.testing.proxy import Proxy, ProxyMode, wait_until
from tests.memory import MEMORY

pytestmark = pytest.mark.postgres

Connection = psycopg.Connection[tuple[object, ...]]
Work = Callable[[Connection], None]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer(MEMORY) as running:
        with psycopg.connect(running.create_database("pattern")) as connection:
            connection.execute("create table session (id int primary key, cursor int not null)")
            connection.execute("insert into session values (1, 0)")
            connection.execute("create table note (body text)")
        yield running


@pytest.fixture
def direct(server: PostgresServer) -> Iterator[Connection]:
    """A connection that does not go through the proxy, to check what is stored."""
    with psycopg.connect(server.create_database(template="pattern"), autocommit=True) as connection:
        yield connection


@pytest.fixture
def proxy(server: PostgresServer, direct: Connection) -> Iterator[Proxy]:
    with Proxy(server.url_of(direct.info.dbname)) as running:
        yield running


def notes(direct: Connection) -> list[object]:
    return [row[0] for row in direct.execute("select body from note order by body")]


def others(direct: Connection) -> object:
    """How many other connections the server still has to this database."""
    question = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    return direct.execute(question).fetchall()[0][0]


def cursor_of_session(direct: Connection, suffix: str = "") -> object:
    return direct.execute(f"select cursor from session where id = 1 {suffix}".encode()).fetchall()[0][0]


def in_transaction(connection: Connection) -> None:
    connection.execute("insert into note values ('a')")
    connection.commit()


def in_pipelined_transaction(connection: Connection) -> None:
    with connection.pipeline():
        connection.execute("insert into note values (%s)", ["a"])
        connection.execute("select 1")
        connection.commit()


def simple(connection: Connection) -> None:
    connection.execute("insert  into\n note values ('a')")


def extended(connection: Connection) -> None:
    connection.execute("INSERT INTO note VALUES (%s)", ["a"], prepare=False)


def prepared(connection: Connection) -> None:
    connection.execute("insert into note values (%s)", ["a"], prepare=True)


def pipelined(connection: Connection) -> None:
    with connection.pipeline():
        connection.execute("select 1")
        connection.execute("insert into note values (%s)", ["a"])
        connection.execute("select 2")


def fetched_in_pipeline(connection: Connection) -> None:
    with connection.pipeline():
        assert connection.execute("insert into note values (%s) returning body", ["a"]).fetchone() == ("a",)


def two_of_one_sync(connection: Connection) -> None:
    with connection.pipeline():
        for body in ("a", "b"):
            connection.execute("insert into note values (%s)", [body])


TRANSACTIONS: list[Work] = [in_transaction, in_pipelined_transaction]
STATEMENTS: list[Work] = [simple, extended, prepared, pipelined, fetched_in_pipeline]
EVERY_WORK = pytest.mark.parametrize("work", [*TRANSACTIONS, *STATEMENTS])


def lose(proxy: Proxy, mode: ProxyMode, work: Work) -> None:
    """Do the work and be cut: around its COMMIT, or around the statement itself when that is a transaction alone."""
    alone = work not in TRANSACTIONS
    with psycopg.connect(proxy.url, autocommit=alone) as connection:
        proxy.arm(mode, match=b"insert into note" if alone else b"COMMIT")
        with pytest.raises(psycopg.OperationalError):
            work(connection)
    assert proxy.fired.is_set()


def test_proxy_is_transparent_until_armed(proxy: Proxy, direct: Connection) -> None:
    with psycopg.connect(proxy.url) as connection:
        for work in (*TRANSACTIONS, *STATEMENTS):
            work(connection)
        big = connection.execute("select repeat('x', 3000000), generate_series(1, 3)").fetchall()
        assert [len(str(row[0])) for row in big] == [3000000] * 3
    assert notes(direct) == ["a"] * 7
    assert not proxy.fired.is_set()


@pytest.mark.parametrize("code", [80877103, 80877104])
def test_encryption_is_declined(proxy: Proxy, code: int) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port)) as client:
        client.sendall((8).to_bytes(4) + code.to_bytes(4))
        assert client.recv(16) == b"N"


@EVERY_WORK
def test_work_cut_before_its_commit_is_not_done(proxy: Proxy, direct: Connection, work: Work) -> None:
    lose(proxy, "cut_before_commit", work)
    wait_until(lambda: others(direct) == 0, "the server has noticed")
    assert notes(direct) == []


@EVERY_WORK
def test_work_cut_after_its_commit_is_done_by_then(proxy: Proxy, direct: Connection, work: Work) -> None:
    lose(proxy, "cut_after_commit", work)
    assert notes(direct) == ["a"]


@EVERY_WORK
def test_work_whose_reply_is_raced_lands_eventually(proxy: Proxy, direct: Connection, work: Work) -> None:
    lose(proxy, "cut_reply_race", work)
    wait_until(lambda: notes(direct) == ["a"], "the commit has landed")


@EVERY_WORK
def test_late_commit_lands_only_when_healed(proxy: Proxy, direct: Connection, work: Work) -> None:
    lose(proxy, "cut_late_commit", work)
    assert others(direct) == 1
    assert notes(direct) == []
    proxy.heal()
    wait_until(lambda: others(direct) == 0, "the commit has landed")
    assert notes(direct) == ["a"]


def test_only_a_row_lock_sees_a_commit_in_flight(proxy: Proxy, direct: Connection) -> None:
    with psycopg.connect(proxy.url) as connection:
        proxy.arm("cut_late_commit")
        connection.execute("update session set cursor = 1 where id = 1")
        with pytest.raises(psycopg.OperationalError):
            connection.commit()
    assert cursor_of_session(direct) == 0
    with pytest.raises(psycopg.errors.LockNotAvailable):
        cursor_of_session(direct, "for update nowait")
    proxy.heal()
    assert cursor_of_session(direct, "for update") == 1


@pytest.mark.parametrize(("mode", "expected"), [("cut_before_commit", []), ("cut_after_commit", ["a", "b"])])
def test_statements_of_one_sync_are_cut_as_one(
    proxy: Proxy, direct: Connection, mode: ProxyMode, expected: list[object]
) -> None:
    lose(proxy, mode, two_of_one_sync)
    wait_until(lambda: others(direct) == 0, "the server has noticed")
    assert notes(direct) == expected


def test_nth_execution_of_a_prepared_statement_is_the_one_that_is_cut(proxy: Proxy, direct: Connection) -> None:
    update = "update session set cursor = cursor + %s where id = 1"
    with psycopg.connect(proxy.url, autocommit=True) as connection:
        connection.execute(update, [1], prepare=True)
        proxy.arm("cut_after_commit", match=b"update session", nth=3)
        for _ in range(2):
            connection.execute(update, [1])
        with pytest.raises(psycopg.OperationalError):
            connection.execute(update, [1])
    assert cursor_of_session(direct) == 4


def test_matches_are_counted_over_all_connections_and_fire_once(proxy: Proxy, direct: Connection) -> None:
    with psycopg.connect(proxy.url) as one, psycopg.connect(proxy.url) as two:
        proxy.arm("cut_before_commit", nth=2)
        in_transaction(one)
        with pytest.raises(psycopg.OperationalError):
            in_transaction(two)
        in_transaction(one)
    with psycopg.connect(proxy.url) as three:
        in_transaction(three)
    assert notes(direct) == ["a"] * 3


def test_only_whole_words_match(proxy: Proxy) -> None:
    with psycopg.connect(proxy.url, autocommit=True) as connection:
        proxy.arm("cut_before_commit")
        connection.execute("select 1 as committed_at, 2 as last_commit")
        assert not proxy.fired.is_set()


def test_commit_after_a_copy_is_found_and_cut(proxy: Proxy, direct: Connection) -> None:
    with psycopg.connect(proxy.url) as connection:
        proxy.arm("cut_after_commit")
        with connection.cursor() as cursor, cursor.copy("copy note from stdin") as copy:
            copy.write_row(["a"])
        with pytest.raises(psycopg.OperationalError):
            connection.commit()
        assert notes(direct) == ["a"]


def test_stalled_commit_waits_and_lands_when_healed(proxy: Proxy, direct: Connection) -> None:
    with psycopg.connect(proxy.url) as connection:
        proxy.arm("stall", match=b"COMMIT")
        thread = threading.Thread(target=in_transaction, args=[connection])
        thread.start()
        assert proxy.fired.wait(120)
        assert notes(direct) == []
        assert thread.is_alive()
        proxy.heal()
        thread.join()
        assert notes(direct) == ["a"]


def test_partition_holds_answers_and_new_connections_and_closes_nothing(proxy: Proxy, direct: Connection) -> None:
    with psycopg.connect(proxy.url, autocommit=True) as connection:
        proxy.arm("stall")
        newcomer = threading.Thread(target=lambda: psycopg.connect(proxy.url).close())
        threads = [newcomer, threading.Thread(target=simple, args=[connection])]
        for thread in threads:
            thread.start()
        assert others(direct) == 1
        assert all(thread.is_alive() for thread in threads)
        proxy.heal()
        for thread in threads:
            thread.join()
    assert notes(direct) == ["a"]


def test_refusing_proxy_cuts_all_connections_and_accepts_none_until_healed(proxy: Proxy, direct: Connection) -> None:
    with psycopg.connect(proxy.url, autocommit=True) as connection:
        proxy.arm("refuse")
        with pytest.raises(psycopg.OperationalError):
            simple(connection)
    with pytest.raises(psycopg.OperationalError, match="refused"):
        psycopg.connect(proxy.url)
    proxy.heal()
    with psycopg.connect(proxy.url, autocommit=True) as connection:
        simple(connection)
    assert notes(direct) == ["a"]


def test_refusal_can_wait_for_a_statement(proxy: Proxy, direct: Connection) -> None:
    lose(proxy, "refuse", in_transaction)
    with pytest.raises(psycopg.OperationalError, match="refused"):
        psycopg.connect(proxy.url)
    wait_until(lambda: others(direct) == 0, "the server has noticed")
    assert notes(direct) == []


def test_client_of_a_proxy_without_server_is_cut(server: PostgresServer) -> None:
    with PostgresServer(MEMORY) as short_lived, Proxy(short_lived.url) as proxy:
        short_lived.kill()
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(proxy.url)
        short_lived.start()
        psycopg.connect(proxy.url).close()


@pytest.mark.parametrize("mode", ["cut_late_commit", "stall"])
def test_leaving_ends_every_thread_and_lands_nothing(
    server: PostgresServer, direct: Connection, mode: ProxyMode
) -> None:
    before = threading.active_count()
    with Proxy(server.url_of(direct.info.dbname)) as proxy:
        thread = threading.Thread(target=lose, args=[proxy, mode, in_transaction])
        thread.start()
        assert proxy.fired.wait(120)
    thread.join()
    assert threading.active_count() == before
    wait_until(lambda: others(direct) == 0, "the server has noticed")
    assert notes(direct) == []


def test_unknown_mode_is_refused(proxy: Proxy) -> None:
    with pytest.raises(ConfigError, match="cut_after_commit"):
        proxy.arm("explode")  # type: ignore[arg-type]
