"""Transactions on PostgreSQL: always read committed, and tried again when the server rolled one back."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from perdure.errors import StoreUnavailable
from perdure.store.move import StoreTransaction, enter
from perdure.store.moves import event, inbox
from perdure.store.store import Store, open_store
from perdure.testing.postgres import PostgresServer
from tests.store.support.sessions import a_holder, a_session, connection_of, plain, run_raw

pytestmark = pytest.mark.postgres

FAIL_ONCE = """
create sequence tries;
create function fail_once() returns trigger language plpgsql as $$
begin
    if new.kind = 'note' and nextval('tries') = 1 then raise exception 'try again' using errcode = '{code}'; end if;
    return new;
end $$;
create constraint trigger fail_once after insert on event {when} for each row execute function fail_once();
"""


def isolation(tx: StoreTransaction) -> tuple[str, str]:
    """The level of this transaction, and the one of a statement outside every transaction."""
    rows = [
        connection_of(tx).execute(f"show {name}_isolation").fetchone()
        for name in ("transaction", "default_transaction")
    ]
    return rows[0][0], rows[1][0]


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
@pytest.mark.parametrize("place", ["database", "role", "address"])
def test_a_store_is_read_committed_whatever_the_server_says(
    postgres_server: PostgresServer, level: str, place: str
) -> None:
    url = postgres_server.create_database()
    name = url.rpartition("/")[2]
    with psycopg.connect(url, autocommit=True) as db:
        if place != "address":
            whom = f"database {name}" if place == "database" else f"role postgres in database {name}"
            db.execute(f"alter {whom} set default_transaction_isolation = '{level}'".encode())
        else:
            url += "?options=-c%20default_transaction_isolation%3D" + level.replace(" ", "%5C%20")
    with open_store(url, connections=4) as store:
        assert store.write_now(plain(isolation)) == ("read committed", "read committed")
        uid = a_session(store).uid
        moves = [inbox.receive(uid, "ada", f"m-{number}", "hello") for number in range(40)]
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(store.write_now, moves))
        assert store.read_now(event.verify, uid).cursor == 41


@pytest.mark.parametrize("when", ["not deferrable", "deferrable initially deferred"], ids=["statement", "commit"])
@pytest.mark.parametrize("code", ["40001", "40P01"])
def test_what_the_server_rolled_back_is_tried_again(postgres_server: PostgresServer, code: str, when: str) -> None:
    with open_store(postgres_server.create_database()) as store:
        holder = a_holder(store)
        with psycopg.connect(store.target, autocommit=True) as db:
            db.execute(FAIL_ONCE.format(code=code, when=when).encode())
            assert store.write_now(event.append(holder, "note")) == 3  # the hot way

            def append(tx: StoreTransaction) -> int:
                log = enter(tx, holder.uid, "ada")
                number = log.append("note")
                log.close()
                return number

            db.execute("alter sequence tries restart")
            assert store.write_now(plain(append)) == 4  # the long way
        assert store.read_now(event.verify, holder.uid).cursor == 4


@pytest.mark.databases("postgres")
def test_a_deadlock_is_resolved_and_both_moves_are_made(store: Store) -> None:
    uids = [a_session(store).uid, a_session(store).uid]
    met, runs = threading.Barrier(2, timeout=30), list[str]()

    def move(first: str, second: str) -> Any:
        def run(tx: StoreTransaction) -> int:
            run_raw(tx, "set local deadlock_timeout = '20ms'")
            log = enter(tx, first, "ada")
            runs.append(first)
            if len(runs) <= 2:
                met.wait()
            enter(tx, second, "ada")
            number = log.append("note")
            log.close()
            return number

        return plain(run)

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(store.write_now, [move(*uids), move(*reversed(uids))])) == [2, 2]
    assert len(runs) > 2


def test_a_move_that_is_always_rolled_back_fails_unwritten(postgres_server: PostgresServer) -> None:
    with open_store(postgres_server.create_database()) as store:
        store.database.patience = 0.1  # type: ignore[attr-defined]
        uid = a_session(store).uid

        def fail(tx: StoreTransaction) -> None:
            enter(tx, uid, "ada").append("note")
            run_raw(tx, "do $$ begin raise exception 'again' using errcode = '40001'; end $$")

        with pytest.raises(StoreUnavailable) as given_up:
            store.write_now(plain(fail))
        assert given_up.value.code == StoreUnavailable.code
        assert store.read_now(event.verify, uid).cursor == 1
