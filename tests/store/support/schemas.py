"""Schemas of the tests: the first version, and possible later ones."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from perdure.clock import SystemClock
from perdure.domain.event import genesis
from perdure.domain.lease import Holder
from perdure.ids import new_uid
from perdure.store import migrate
from perdure.store.databases.postgres.migrator import PostgresTransaction
from perdure.store.inspection import read_access
from perdure.store.migrate import Migrator
from perdure.store.move import Log, Move, StoreTransaction, read_head
from perdure.store.moves import event, lease
from perdure.store.statements import load
from perdure.store.upgrade import migrator
from tests.store.support.process_group import Ready
from tests.store.support.sessions import TTL

SESSIONS = 5
FILES = {
    "0002_mood.sql": "-- phase: expand\n-- compatible_from: 1\nalter table session add column mood text;\n",
    "0003_calm.sql": "-- phase: expand\n-- compatible_from: 1\n-- Every session gets a mood.\n",
    "0003_calm.backfill.sql": "update session set mood = 'calm' where uid in"
    " (select uid from session where mood is null order by uid limit 2);\n",
    "0004_moody.sql": "-- phase: contract\n-- compatible_from: 3\n-- Older code knows no mood.\n"
    "create table moody (uid text not null references session (uid), mood {int}) {strict};\n",
}


def write_folder(folder: Path) -> Path:
    """Migrations: the first of the package, and three that add a column `mood` to sessions."""
    folder.mkdir()
    for file in resources.files("perdure.store").joinpath("migrations").iterdir():
        if file.name.startswith("0001"):
            (folder / file.name).write_text(file.read_text())
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


def dialect_of(target: str) -> str:
    return "postgres" if target.startswith("postgresql:") else "sqlite"


@contextmanager
def a_migrator(target: str) -> Iterator[Migrator]:
    with migrator(read_access.locate_store(target)) as found:
        yield found


def migrate_to(target: str, folder: Path | None, version: int | None = None, **options: Any) -> list[int]:
    """Migrate up to a version, by default the newest."""
    with a_migrator(target) as database:
        return migrate.migrate(database, migrate.load(dialect_of(target), folder)[:version], **options)


def write(database: Any, move: Move[Any]) -> Any:
    """Commit a move on a schema that a store would not open; the head of a session has no later columns there."""
    statements = load(database.dialect)
    later = ("interrupt_requested_at", "removed_at", "lease_alone", "code_version")
    whole = {name: statements[name] for name in ("session.lock_head", "lease.crash_record", "session.lease")}
    for name in ("session.lock_head", "lease.crash_record"):
        for column in later:
            statements[name] = statements[name].replace(column, "null")
    statements["session.lease"] = re.sub(r", lease_alone = .*(?=\nwhere)", "", whole["session.lease"], flags=re.DOTALL)
    try:
        return _write(database, move)
    finally:
        statements.update(whole)


def _write(database: Any, move: Move[Any]) -> Any:
    if database.dialect == "postgres":
        with database._db.transaction():
            return move.run(PostgresTransaction(database._db, SystemClock().now(), move.id, 0))
    database._engine.begin()
    result = move.run(database._engine.transaction(move.id))
    database._engine.commit()
    return result


def ask(target: str, question: str) -> list[tuple[Any, ...]]:
    """The result of a query, with any schema."""
    with a_migrator(target) as database:
        connection = database._db if database.dialect == "postgres" else database._engine.db  # type: ignore[attr-defined]
        return [tuple(row) for row in connection.execute(question).fetchall()]


def a_worker_of(version: int) -> Move[Any]:
    """The row that a worker of an older version wrote."""
    sql = (
        "insert into worker (id, host, boot_id, pid, start_token, schema_from, schema_to, programs, started_at,"
        " seen_at) values ('w-old', 'host', 'boot', 1, 'token', ?, ?, '[]', 0, 0)"
    )
    return Move("worker.register", "plain", lambda tx: tx.execute(sql, [version, version]))


def a_first_session(uid: str, id: str) -> Move[None]:
    """Create a session with the columns of the first schema."""

    def run(tx: StoreTransaction) -> None:
        columns = {
            "uid": uid, "id": id, "program": "p", "arguments": "{}", "queue": "default", "priority": 0,
            "status": "ready", "cursor": 0, "chain": genesis(uid), "branch": "main", "lease_epoch": 0,
            "restart_number": 0, "crash_count": 0, "tokens_in": 0, "tokens_out": 0, "cost_micros": 0,
            "created_at": tx.now, "updated_at": tx.now, "version": 1,
        }  # fmt: skip
        places = ", ".join("?" for _ in columns)
        tx.execute(f"insert into session ({', '.join(columns)}) values ({places})", list(columns.values()))
        log = Log(tx, read_head(tx, uid), "ada")
        log.append("session.created", rows={"session": {"status": "ready"}})
        log.close()

    return Move("create", "outsider", run)


def sessions_in_flight(target: str) -> list[Holder]:
    """Running sessions, with any schema."""
    holders = []
    with a_migrator(target) as database:
        for number in range(SESSIONS):
            uid = new_uid()
            write(database, a_first_session(uid, f"s-{number}"))
            holder = write(database, lease.acquire(uid, "w", nonce=new_uid(), ttl=TTL))
            write(database, event.append(holder, "note", {"n": number}))
            holders.append(holder)
    return holders


def migrate_all(ready: Ready, target: str, folder: Path) -> list[int]:
    """Migrate in one of several processes at the same time."""
    ready()
    return migrate_to(target, folder)


def migrate_and_die(target: str, folder: Path, batches: int) -> None:
    """Migrate, and kill this process before another batch begins."""
    with a_migrator(target) as database:
        real, left = database.batch, iter(range(batches))

        def batch(statement: str) -> int:
            if next(left, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(statement)

        database.batch = batch  # type: ignore[method-assign]
        migrate.migrate(database, migrate.load(dialect_of(target), folder))
