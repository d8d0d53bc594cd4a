"""PostgreSQL killed with SIGKILL during commits: what was acknowledged is there, and every move is there once."""

import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import psycopg
import pytest

from perdure.domain.lease import Holder
from perdure.errors import PerdureError
from perdure.store.databases.postgres.address import parse_address
from perdure.store.databases.postgres.database import PostgreSQL
from perdure.store.move import Move
from perdure.store.moves import event, fact, message, meta, session
from perdure.store.store import Store, open_store
from perdure.testing.postgres import PostgresServer
from perdure.testing.proxy import wait_until
from tests.crash.support.power_loss_tasks import begin
from tests.crash.support.verdict import examine
from tests.figures import record

pytestmark = pytest.mark.postgres

WRITERS = 4


class Writer(threading.Thread):
    """Writes to a session as fast as it can: hot appends, and every third time a move that must not be repeated."""

    def __init__(self, store: Store, holder: Holder, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.store, self.holder, self.stop = store, holder, stop
        self.acknowledged: list[int] = []
        self.used = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                self.one(len(self.acknowledged) + 1)
        except BaseException as error:
            self.failure = error

    def one(self, number: int) -> None:
        self.store.write_now(event.append(self.holder, "note", {"n": number}))
        self.acknowledged.append(number)
        if number % 3 == 0:
            self.store.write_now(message.add_usage(self.holder, tokens_in=1, tokens_out=0, cost_micros=0))
            self.used += 1
        if number % 5 == 0:
            self.store.write_now(self.remember(number))

    def remember(self, number: int) -> Move[Any]:
        return fact.remember(self.holder.uid, "w", f"s:{self.holder.uid}", "n", number, expected=number // 5 - 1)

    def problems(self) -> list[str]:
        try:
            return self._problems()
        except PerdureError as error:
            return [f"the session cannot be read: {error!r}"]

    def _problems(self) -> list[str]:
        found = [f"the writer failed: {self.failure!r}"] if self.failure else []
        notes = self.store.read_now(numbers_of_notes, self.holder.uid)
        if notes != self.acknowledged:
            lost = sorted(set(self.acknowledged) - set(notes))
            found.append(
                f"acknowledged {len(self.acknowledged)}, there are {len(notes)}; lost {lost[:5]}, or out of order"
            )
        if (row := self.store.read_now(session.get, self.holder.uid)).tokens_in != self.used:
            found.append(f"acknowledged {self.used} uses, there are {row.tokens_in}")
        for sentences in self.store.read_now(examine, self.holder.uid).values():
            found += sentences
        return found


def numbers_of_notes(tx: Any, uid: str) -> list[int]:
    """All of them: a log may be longer than a page."""
    found, after = list[int](), 0
    while page := event.after(tx, uid, after):
        found += [line.body["n"] for line in page if line.kind == "note" and "n" in line.body]
        after = page[-1].number
    return found


def write_through(url: str, crash: Callable[[], None], crashes: int) -> list[Writer]:
    """Let writers write while the server crashes again and again."""
    stop = threading.Event()
    store = Store(PostgreSQL(url, connections=WRITERS, patience=60), url)
    writers = [Writer(store, holder, stop) for holder in begin(store, tuple(f"s-{n}" for n in range(WRITERS)))]

    def all_have_written(before: list[int]) -> bool:
        counts = [len(writer.acknowledged) if writer.is_alive() else 1 << 40 for writer in writers]
        return all(now > was + 5 for now, was in zip(counts, before, strict=True))

    for writer in writers:
        writer.start()
    for _ in range(crashes):
        before = [len(writer.acknowledged) for writer in writers]
        wait_until(partial(all_have_written, before), "every writer has written")
        crash()
    stop.set()
    for writer in writers:
        writer.join()
    wait_until(partial(answers, url), "the server has recovered")
    return writers


def answers(url: str) -> bool:
    try:
        psycopg.connect(parse_address(url).url).close()
    except psycopg.OperationalError:
        return False
    return True


def check(name: str, writers: list[Writer], crashes: int) -> list[str]:
    moves = sum(len(writer.acknowledged) + writer.used for writer in writers)
    wrong = [sentence for writer in writers for sentence in writer.problems()]
    record("PostgreSQL killed", ("crashes", "moves", "wrong"), (name, crashes, moves, len(wrong)))
    writers[0].store.close()
    return wrong


def test_writers_survive_repeated_kills_of_the_server(victim: PostgresServer) -> None:
    writers = write_through(victim.create_database(), victim.restart, 8)
    assert check("the whole server, under four writers", writers, 8) == []


def test_writers_survive_the_kill_of_one_server_process(victim: PostgresServer) -> None:
    """The server then disconnects all clients and recovers by itself."""
    url = victim.create_database()

    def kill_a_backend() -> None:
        with psycopg.connect(url, autocommit=True) as db:
            question = "select pid from pg_stat_activity where application_name = 'perdure' and datname = %s limit 1"
            (found,) = db.execute(question, [db.info.dbname]).fetchall()
        os.kill(found[0], signal.SIGKILL)

    assert check("one process of the server, under four writers", write_through(url, kill_a_backend, 4), 4) == []


@pytest.mark.soak
def test_writers_survive_two_hundred_crashes(victim: PostgresServer) -> None:
    writers = write_through(victim.create_database(), victim.restart, 200)
    assert check("the whole server, soak", writers, 200) == []


def test_a_server_that_does_not_sync_is_caught(victim: PostgresServer) -> None:
    """The positive control: what was acknowledged is only in the memory of a process that is killed."""
    url = victim.create_database()
    open_store(url).close()
    writers = write_through(f"{url}?options=-c%20synchronous_commit%3Doff", victim.restart, 4)
    assert check("no sync: must lose", writers, 4) != []


def test_a_first_connection_waits_for_a_server_that_restarts(victim: PostgresServer) -> None:
    """Nothing was written through this store yet, so that the connection that writes is not open."""
    with open_store(victim.create_database()) as store, ThreadPoolExecutor(1) as pool:
        victim.kill()
        written = pool.submit(store.write_now, meta.put("key", "value"))
        victim.start()
        written.result(timeout=180)
        assert store.read_now(meta.properties)["key"] == "value"
