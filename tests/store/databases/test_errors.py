"""The drivers' errors arrive as ours: the same mistake is the same error, whatever the database says."""

import socket
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from perdure.errors import (
    ConfigError,
    Conflict,
    Damaged,
    IllegalMove,
    PerdureError,
    StoreFull,
    StoreUnavailable,
)
from perdure.store.databases.sqlite.engine import translate
from perdure.store.move import StoreTransaction, enter
from perdure.store.moves import inbox, meta
from perdure.store.store import Store, open_store
from perdure.testing.postgres import PostgresServer
from tests.store.support.sessions import a_session, connection_of, plain, raw


def expect_error(store: Store, error: type[PerdureError], *statements: str, match: str | None = None) -> PerdureError:
    with pytest.raises(error, match=match) as caught:
        raw(store, *statements)
    assert type(caught.value) is error
    store.write_now(meta.put("still", "works"))
    return caught.value


def test_what_breaks_a_rule_of_ours_is_an_illegal_move(store: Store) -> None:
    a_session(store)
    told = expect_error(store, IllegalMove, "delete from event", match="an event is never deleted")
    assert "perdure:" not in str(told)


@pytest.mark.parametrize(
    "statement",
    [
        "insert into meta (key, value) values ('store_id', 'x')",
        "insert into meta (key, value) values ('k', null)",
        "insert into checkpoint values ('missing', 1, 'c', 'f', 'b', 0)",
        "insert into lease values ('r', null, null, 0, null)",
    ],
)
def test_what_does_not_fit_is_a_conflict(store: Store, statement: str) -> None:
    expect_error(store, Conflict, statement)


@pytest.mark.databases("sqlite", "memory", "files")
def test_a_statement_that_is_none_is_not_hidden(store: Store) -> None:
    assert "nonsense" in str(expect_error(store, StoreUnavailable, "nonsense"))


@pytest.mark.databases("sqlite", "memory", "files")
def test_a_full_disk_is_said_to_be_full(store: Store) -> None:
    def fill(tx: StoreTransaction) -> None:
        db = connection_of(tx)
        db.execute("pragma max_page_count = 1").fetchall()
        try:
            db.execute("insert into meta (key, value) select 'big', hex(zeroblob(10000000))")
        finally:
            db.execute("pragma max_page_count = 1000000").fetchall()

    with pytest.raises(StoreFull):
        store.write_now(plain(fill))
    store.write_now(meta.put("still", "works"))


@pytest.mark.databases("sqlite")
def test_another_program_that_holds_the_file_makes_it_busy(store: Store) -> None:
    store.write_now(plain(lambda tx: connection_of(tx).set_busy_timeout(10)))
    other = apsw.Connection(store.target)
    other.execute("begin immediate")
    with pytest.raises(StoreUnavailable, match="busy"):
        store.write_now(meta.put("a", "b"))
    other.execute("rollback")
    store.write_now(meta.put("a", "b"))
    other.close()


def test_a_failed_reader_connection_does_not_fail_the_next_read(folder: Path) -> None:
    with open_store(folder / "here" / "perdure.db") as store:
        (folder / "here").rename(folder / "away")
        with pytest.raises(StoreUnavailable, match="was replaced, moved or removed"):
            store.read_now(meta.properties)
        (folder / "away").rename(folder / "here")
        assert store.read_now(meta.get, "store_id")


@pytest.mark.databases("sqlite")
def test_a_read_that_sqlite_rolled_back_reports_its_own_error(store: Store) -> None:
    """An I/O error ends the transaction as well; ending it once more must not replace the error."""

    def fail(tx: StoreTransaction) -> None:
        tx.execute("rollback", ())
        raise apsw.IOError("disk I/O error")

    with pytest.raises(StoreUnavailable, match="The disk failed: disk I/O error"):
        store.read_now(fail)
    assert store.read_now(meta.get, "store_id")


@pytest.mark.databases("sqlite", "postgres")
def test_a_read_cannot_write(store: Store) -> None:
    with pytest.raises(StoreUnavailable):
        store.read_now(lambda tx: tx.run("meta.put", key="a", value="b"))
    assert store.read_now(meta.get, "a") is None


def test_a_file_that_is_no_database_is_damaged(folder: Path) -> None:
    path = folder / "perdure.db"
    path.write_bytes(b"this is not a database, and long enough to see that" * 100)
    with pytest.raises(Damaged, match="not a SQLite file"):
        open_store(path)


def test_a_path_that_cannot_be_opened_is_unavailable(folder: Path) -> None:
    (folder / "perdure.db").mkdir()
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        open_store(folder / "perdure.db")


def test_a_folder_that_cannot_be_made_is_unavailable(folder: Path) -> None:
    (folder / "file").write_text("in the way")
    with pytest.raises(StoreUnavailable, match="cannot be made"):
        open_store(folder / "file" / "perdure.db")


@pytest.mark.parametrize(
    ("driver", "ours"),
    [
        (apsw.IOError("disk I/O error"), StoreUnavailable),
        (apsw.CorruptError("malformed"), Damaged),
        (apsw.ReadOnlyError("readonly"), StoreUnavailable),
        (apsw.LockedError("locked"), StoreUnavailable),
        (apsw.SchemaChangeError("changed"), StoreUnavailable),
    ],
)
def test_what_is_hard_to_provoke_is_translated_too(driver: apsw.Error, ours: type[PerdureError]) -> None:
    assert type(translate(driver)) is ours


@pytest.mark.parametrize("error", [Conflict("ours"), ValueError("theirs"), SystemExit(1)])
def test_what_is_no_error_of_the_driver_stays_what_it_is(error: BaseException) -> None:
    assert translate(error) is error


SAID_BY_POSTGRES: dict[str, tuple[tuple[str, ...], type[PerdureError], str]] = {
    "disk full": (("do $$ begin raise exception 'no room' using errcode = 'disk_full'; end $$",), StoreFull, "is full"),
    "too slow": (("set local statement_timeout = 20", "select pg_sleep(5)"), StoreUnavailable, "took too long"),
    "a deadlock": (
        ("do $$ begin raise exception 'dead' using errcode = 'deadlock_detected'; end $$",),
        StoreUnavailable,
        "dead",
    ),
    "not a number": (("select cast('x' as bigint)",), ConfigError, "cannot hold"),
    "too large": (("select cast(power(2, 70) as bigint)",), ConfigError, "cannot hold"),
    "not SQL": (("nonsense",), StoreUnavailable, "nonsense"),
}


@pytest.mark.databases("postgres")
@pytest.mark.parametrize(("statements", "error", "match"), SAID_BY_POSTGRES.values(), ids=SAID_BY_POSTGRES.keys())
def test_postgres_errors_are_translated(
    store: Store, monkeypatch: pytest.MonkeyPatch, statements: tuple[str, ...], error: type[PerdureError], match: str
) -> None:
    monkeypatch.setattr(store.database, "patience", 0.1)  # how long a deadlock is tried again
    expect_error(store, error, *statements, match=match)


@pytest.mark.databases("postgres")
def test_a_lock_that_is_not_given_is_unavailable(store: Store, target: str) -> None:
    import psycopg

    uid = a_session(store).uid
    with psycopg.connect(target) as other:
        other.execute("select 1 from session where uid = %s for update", (uid,))
        locked = f"select 1 from session where uid = '{uid}' for update"
        expect_error(store, StoreUnavailable, "set local lock_timeout = 20", locked, match="took too long")


@pytest.mark.databases("postgres")
def test_a_late_error_does_not_break_the_connection(target: str) -> None:
    """A statement that was only sent is refused when the next answer is awaited, and what followed it was skipped.

    A driver that believes that it prepared one of those would never again run it on this connection.
    """

    def sends_nonsense(tx: StoreTransaction) -> None:
        log = enter(tx, uid, "ada")
        log.append("nonsense")
        log.close()

    with open_store(target, connections=1) as store:
        uid = a_session(store).uid
        for number in range(12):
            with pytest.raises(IllegalMove):
                store.write_now(plain(sends_nonsense))
            store.write_now(inbox.receive(uid, "ada", f"m-{number}", "hello"))


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("address", "error"),
    [
        (lambda url: f"postgresql://127.0.0.1:{unused_port()}/x", StoreUnavailable),
        (lambda url: url.rpartition("/")[0] + "/nothing", StoreUnavailable),
        (lambda url: url.replace("postgres:", "postgres:wrong"), StoreUnavailable),
        (lambda url: url + "?nonsense=1", ConfigError),
        (lambda url: "postgresql://[", ConfigError),
    ],
    ids=["no server", "no such database", "wrong password", "no such option", "no address"],
)
def test_a_server_that_does_not_let_us_in_is_said_to(
    postgres_server: PostgresServer, address: Callable[[str], str], error: type[PerdureError]
) -> None:
    with pytest.raises(error) as caught:
        open_store(address(postgres_server.url))
    assert postgres_server.password not in str(caught.value)


def unused_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
