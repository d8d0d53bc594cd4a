"""Migrations: applied once, in order, by one process at a time, with sessions in flight, whole after any crash."""

import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from perdure.domain.lease import Holder
from perdure.errors import ConfigError, SchemaMismatch
from perdure.store import migrate
from perdure.store.databases.postgres import migrator
from perdure.store.databases.sqlite import engine
from perdure.store.databases.sqlite.location import companion
from perdure.store.move import Move
from perdure.store.moves import event, inbox, lease, meta, session
from perdure.store.store import open_store
from perdure.store.writer.lock import Presence
from perdure.testing.postgres import PostgresServer
from perdure.testing.proxy import wait_until
from tests.store.support import schemas
from tests.store.support.locks import is_waited_for
from tests.store.support.process_group import ProcessGroup
from tests.store.support.schemas import SESSIONS, ask, dialect_of, migrate_to, sessions_in_flight
from tests.store.support.sessions import TTL, a_holder, a_session
from tests.tidy.test_words import PATTERN

pytestmark = pytest.mark.databases("sqlite", "postgres")

KNOWN = len(migrate.load("sqlite"))
NEEDED = migrate.needed(migrate.load("sqlite"))


@pytest.fixture
def blank(request: pytest.FixtureRequest, target: str, folder: Path) -> Iterator[str]:
    """The address of a database without any tables."""
    if dialect_of(target) == "sqlite":
        yield str(folder / "blank.db")
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    yield (url := server.create_database())
    server.drop_database(url)


@pytest.fixture
def steps(folder: Path) -> Path:
    return schemas.write_folder(folder / "migrations")


def version_of(target: str) -> int:
    return int(ask(target, "select value from meta where key = 'schema_version'")[0][0])


def outgrow(target: str) -> None:
    """What a migration of newer code leaves that older code must not use."""
    with schemas.a_migrator(target) as database:
        database.apply((), {"schema_version": str(KNOWN + 2), "compatible_from": str(KNOWN + 1)})


def moods(target: str) -> list[str | None]:
    return [mood for (mood,) in ask(target, "select mood from session order by uid")]


@pytest.mark.parametrize("version", range(1, KNOWN))
def test_a_store_of_any_earlier_version_continues(blank: str, version: int) -> None:
    migrate_to(blank, None, version)
    holders = sessions_in_flight(blank)
    if dialect_of(blank) == "postgres":
        if version < NEEDED:
            with pytest.raises(SchemaMismatch, match=f"has schema {version}"):
                open_store(blank)
        migrate_to(blank, None)
    with open_store(blank) as store:
        for holder in holders:
            assert store.write_now(event.append(holder, "note")) == 4
            store.write_now(lease.renew(holder, TTL))
            assert store.read_now(event.verify, holder.uid).cursor == 4
            assert store.read_now(event.state_at, holder.uid).session["status"] == "running"
        assert store.read_now(session.count) == {"running": SESSIONS}
        assert store.database.schema_version == KNOWN


def test_expand_backfill_and_contract_with_sessions_in_flight(blank: str, steps: Path) -> None:
    assert migrate_to(blank, steps, 1) == [1]
    holders = sessions_in_flight(blank)
    before = ask(blank, "select uid, cursor, chain, lease_epoch from session order by uid")
    assert migrate_to(blank, steps) == [2, 3, 4]
    assert moods(blank) == ["calm"] * SESSIONS
    assert ask(blank, "select uid, cursor, chain, lease_epoch from session order by uid") == before
    with schemas.a_migrator(blank) as database:
        assert [schemas.write(database, event.append(holder, "note")) for holder in holders] == [4] * SESSIONS
    assert migrate_to(blank, steps) == []


@pytest.mark.slow
def test_a_crash_during_a_backfill_is_resumed_from_its_version(blank: str, steps: Path) -> None:
    migrate_to(blank, steps, 1)
    sessions_in_flight(blank)
    dying = multiprocessing.get_context("spawn").Process(target=schemas.migrate_and_die, args=(blank, steps, 1))
    dying.start()
    dying.join(60)
    assert dying.exitcode == -signal.SIGKILL
    assert version_of(blank) == 2
    assert moods(blank).count("calm") == 2
    assert migrate_to(blank, steps) == [3, 4]
    assert moods(blank) == ["calm"] * SESSIONS


@pytest.mark.slow
def test_several_migrators_at_once_migrate_once(blank: str, steps: Path, processes: ProcessGroup) -> None:
    migrate_to(blank, steps, 1)
    sessions_in_flight(blank)
    applied = processes.run(schemas.migrate_all, [(blank, steps)] * 4)
    assert sorted(number for of_one in applied for number in of_one) == [2, 3, 4]
    assert (version_of(blank), moods(blank)) == (4, ["calm"] * SESSIONS)


def test_what_would_break_a_living_worker_is_left_for_later(blank: str, steps: Path) -> None:
    migrate_to(blank, steps, 1)
    assert migrate_to(blank, steps, oldest_alive=1) == [2, 3]
    assert migrate_to(blank, steps, oldest_alive=2) == []
    assert version_of(blank) == 3
    assert migrate_to(blank, steps, oldest_alive=3) == [4]


def test_a_migration_that_fails_changes_nothing(blank: str, steps: Path) -> None:
    migrate_to(blank, steps, 1)
    wrong = steps / "0002_mood.sql"
    text = wrong.read_text()
    wrong.write_text(text + "insert into nowhere values (1);\n")
    with pytest.raises(Exception, match="nowhere"):
        migrate_to(blank, steps)
    assert version_of(blank) == 1
    wrong.write_text(text)
    assert migrate_to(blank, steps) == [2, 3, 4]


def test_a_newer_store_is_refused_unless_compatible(target: str) -> None:
    with open_store(target) as store:
        made = a_session(store)
    outgrow(target)
    with pytest.raises(SchemaMismatch, match=f"schema {KNOWN + 2}, which needs Perdure with schema {KNOWN + 1}"):
        open_store(target)
    with schemas.a_migrator(target) as database:
        schemas.write(database, meta.put("compatible_from", str(KNOWN)))
    with open_store(target) as store:
        assert store.read_now(session.get, made.uid) == made
        assert store.database.schema_version == KNOWN + 2


SLOW = {
    "sqlite": "create table slow as with recursive n (i) as (select 1 union all select i + 1 from n where i < 300000) "
    "select max(i) as i from n;\n",
    "postgres": "select pg_sleep(0.2);\n",
}


def test_a_migration_may_take_longer_than_a_move(blank: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    migrate_to(blank, None, 1)
    steps = schemas.write_folder(folder / "slow")
    for name in schemas.FILES:
        (steps / name).unlink()
    (steps / "0002_slow.sql").write_text("-- phase: expand\n-- compatible_from: 1\n")
    for dialect, text in SLOW.items():
        (steps / f"0002_slow.{dialect}.sql").write_text(text)
    monkeypatch.setattr(engine, "MOVE_LIMIT", 0.0)
    if dialect_of(blank) == "postgres":
        blank += "?options=-c%20statement_timeout%3D50"
    assert migrate_to(blank, steps) == [2]


@pytest.mark.databases("postgres")
def test_a_second_migrator_waits_for_a_long_migration(blank: str) -> None:
    migrate_to(blank, None, 1)
    with schemas.a_migrator(blank) as first, ThreadPoolExecutor(1) as pool:
        first.lock()
        second = pool.submit(migrate_to, f"{blank}?options=-c%20lock_timeout%3D20", None)
        refused = "select 1 from pg_stat_database where datname = current_database() and xact_rollback >= 3"
        wait_until(lambda: bool(ask(blank, refused)), "the second was refused the lock a few times")
        assert not second.done()
        first.unlock()
        assert second.result(60) == list(range(2, KNOWN + 1))


WRITES: dict[str, Callable[[Holder], Move[Any]]] = {
    "hot": lambda holder: event.append(holder, "note"),
    "long": lambda holder: inbox.receive(holder.uid, "ada", "m-1", "hello"),
    "plain": lambda _: meta.put("a", "b"),
}


@pytest.mark.parametrize("kind", WRITES)
def test_a_process_notices_before_its_next_write_that_the_schema_outgrew_it(target: str, kind: str) -> None:
    with open_store(target) as store:
        holder = a_holder(store)
        outgrow(target)
        for _ in range(2):
            with pytest.raises(SchemaMismatch, match=f"needs Perdure with schema {KNOWN + 1}") as refused:
                store.write_now(WRITES[kind](holder))
            assert "Upgrade" in refused.value.hint
    assert ask(target, "select cursor from session") == [(2,)]
    assert ask(target, "select key from meta where key = 'a'") == []


@pytest.mark.databases("postgres")
@pytest.mark.parametrize("kind", ["hot", "long"])
def test_a_move_that_waited_for_a_migration_sees_what_it_changed(blank: str, kind: str) -> None:
    import psycopg

    with open_store(blank) as store, psycopg.connect(blank) as migration:
        holder = a_holder(store)
        migration.execute("alter table event add column mood text")
        with ThreadPoolExecutor(1) as pool:
            written = pool.submit(store.write_now, WRITES[kind](holder))
            process = migration.info.backend_pid
            wait_until(lambda: is_waited_for(blank, process), "the move waits for the migration's lock", 60)
            migration.execute("update meta set value = %s where key = 'schema_version'", (str(KNOWN + 1),))
            migration.execute("update meta set value = %s where key = 'compatible_from'", (str(KNOWN + 1),))
            migration.commit()
            with pytest.raises(SchemaMismatch):
                written.result(60)
    assert ask(blank, "select cursor from session") == [(2,)]


@pytest.mark.databases("sqlite")
def test_a_copy_is_kept_before_a_file_is_migrated(blank: str, steps: Path) -> None:
    backups = companion(Path(blank)) / "backups"
    migrate_to(blank, steps, 1)
    assert not backups.exists()
    sessions_in_flight(blank)
    migrate_to(blank, steps)
    [copy] = backups.iterdir()
    assert copy.name.startswith("schema-0001-")
    assert ask(str(copy), "select count(*) from session") == [(SESSIONS,)]
    assert version_of(str(copy)) == 1
    migrate_to(blank, steps)
    assert list(backups.glob("*.db")) == [copy]


@pytest.mark.databases("postgres")
def test_a_waiting_migration_does_not_block_readers(blank: str, steps: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Statements queue behind a waiting `alter table`, so it rolls back repeatedly and lets them pass."""
    import psycopg

    monkeypatch.setattr(migrator, "LOCK_TIMEOUT", "100ms")
    monkeypatch.setattr(migrator, "ATTEMPTS", 10_000)
    migrate_to(blank, steps, 1)
    migrating = threading.Thread(target=migrate_to, args=(blank, steps))
    with psycopg.connect(blank) as long, psycopg.connect(blank, autocommit=True) as short:
        long.execute("select count(*) from session")
        short.execute("set lock_timeout = '20s'")
        migrating.start()
        stood_behind = 0
        while stood_behind < 3:  # of these reads, some come while the migration waits
            waits = short.execute("select 1 from pg_locks where not granted and relation = 'session'::regclass")
            stood_behind += waits.fetchone() is not None
            short.execute("select count(*) from session")
        assert migrating.is_alive()
    migrating.join(90)
    assert version_of(blank) == 4


@pytest.mark.databases("sqlite")
def test_a_read_continues_while_a_file_is_migrated(blank: str, steps: Path) -> None:
    import apsw

    migrate_to(blank, steps, 1)
    sessions_in_flight(blank)
    reader = apsw.Connection(blank)
    reader.execute("begin")
    assert reader.execute("select count(*) from session").fetchall() == [(SESSIONS,)]
    assert migrate_to(blank, steps) == [2, 3, 4]
    assert reader.execute("select count(*) from session").fetchall() == [(SESSIONS,)]
    reader.execute("rollback")
    assert reader.execute("select distinct mood from session").fetchall() == [("calm",)]
    reader.close()


WRONG = {
    "a gap": ("0003_next.sql", "-- phase: expand\n-- compatible_from: 1\n", "0003_next is out of order"),
    "no phase": ("0002_next.sql", "-- compatible_from: 1\n", "does not declare its phase"),
    "no compatibility": ("0002_next.sql", "-- phase: expand\n", "does not declare its phase"),
    "only for one": ("0002_next.postgres.sql", "-- phase: expand\n-- compatible_from: 1\n", "0002_next"),
}


@pytest.mark.parametrize(("name", "text", "words"), WRONG.values(), ids=WRONG.keys())
def test_a_folder_that_is_not_in_order_is_refused(folder: Path, name: str, text: str, words: str) -> None:
    (folder / "0001_first.sql").write_text("-- phase: expand\n-- compatible_from: 1\n")
    (folder / name).write_text(text)
    with pytest.raises(ConfigError, match=words):
        migrate.load("sqlite", folder)


def test_a_backfill_stands_alone_because_a_crash_runs_it_again(steps: Path) -> None:
    for dialect in ("sqlite", "postgres"):
        assert [one.backfill is None for one in migrate.load(dialect, steps)] == [True, True, False, True]
    (steps / "0003_calm.sql").write_text("-- phase: expand\n-- compatible_from: 1\ncreate index i on session (mood);\n")
    with pytest.raises(ConfigError, match="0003_calm is a backfill"):
        migrate.load("sqlite", steps)


def test_both_databases_know_the_same_migrations() -> None:
    for one, other in zip(migrate.load("sqlite"), migrate.load("postgres"), strict=True):
        assert (one.number, one.name, one.phase, one.compatible_from) == (
            other.number,
            other.name,
            other.phase,
            other.compatible_from,
        )


@pytest.mark.databases("sqlite")
def test_opening_does_not_migrate_under_a_living_worker_of_an_older_version(blank: str) -> None:
    migrate_to(blank, None, 2)
    with schemas.a_migrator(blank) as database:
        schemas.write(database, schemas.a_worker_of(2))
    alive = Presence(companion(Path(blank)) / "workers", "w-old")
    with pytest.raises(SchemaMismatch, match="would break older workers that are running: w-old"):
        open_store(blank)
    assert version_of(blank) == 2
    alive.close()
    with open_store(blank) as store:
        assert store.database.schema_version == KNOWN


@pytest.mark.databases("sqlite")
def test_new_meanings_do_not_lock_out_a_running_worker_of_schema_5(blank: str) -> None:
    migrate_to(blank, None, 5)
    with schemas.a_migrator(blank) as database:
        schemas.write(database, schemas.a_worker_of(5))
    alive = Presence(companion(Path(blank)) / "workers", "w-old")
    with pytest.raises(SchemaMismatch, match="has schema 6, and the next migration would break older workers"):
        open_store(blank)  # schema 6 was applied; schema 7 needs newer code
    migrate.check(6, int(ask(blank, "select value from meta where key = 'compatible_from'")[0][0]), 5)
    alive.close()
    with open_store(blank) as store:
        assert store.database.schema_version == KNOWN


def test_contract_step_waits_until_the_last_worker_of_schema_7_has_ended(blank: str) -> None:
    """The first nine migrations only: schema 10 refuses older code."""
    migrate_to(blank, None, 7)
    holders = sessions_in_flight(blank)
    assert migrate_to(blank, None, 9, oldest_alive=7) == [8]
    assert migrate_to(blank, None, 9, oldest_alive=7) == []
    assert ask(blank, "select value from meta where key = 'compatible_from'") == [("7",)]
    with schemas.a_migrator(blank) as database:
        assert [schemas.write(database, event.append(holder, "note")) for holder in holders] == [4] * SESSIONS
    assert migrate_to(blank, None, 9) == [9]
    assert ask(blank, "select value from meta where key = 'compatible_from'") == [("8",)]


@pytest.mark.databases("sqlite")
def test_policy_is_not_installed_beside_a_living_worker_of_schema_9(blank: str) -> None:
    migrate_to(blank, None, 9)
    with schemas.a_migrator(blank) as database:
        schemas.write(database, schemas.a_worker_of(9))
    alive = Presence(companion(Path(blank)) / "workers", "w-old")
    with pytest.raises(SchemaMismatch, match="would break older workers that are running: w-old"):
        open_store(blank)
    assert version_of(blank) == 9
    alive.close()
    with open_store(blank) as store:
        assert store.database.schema_version == KNOWN


def test_code_of_schema_9_is_refused_once_a_policy_can_bind(blank: str) -> None:
    migrate_to(blank, None, 10)
    compatible_from = int(ask(blank, "select value from meta where key = 'compatible_from'")[0][0])
    assert compatible_from == 10
    with pytest.raises(SchemaMismatch, match="needs Perdure with schema 10; this one has 9"):
        migrate.check(10, compatible_from, 9)


def test_every_kind_has_a_plain_meaning_after_migration(blank: str) -> None:
    migrate_to(blank, None)
    for table in ("event_kind", "wait_kind"):
        odd = [row for row in ask(blank, f"select kind, meaning from {table}") if PATTERN.search(row[1])]
        assert odd == []
