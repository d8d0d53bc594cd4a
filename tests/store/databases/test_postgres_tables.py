"""How the tables are laid out on PostgreSQL: keys by which they could be partitioned, and settings of hot tables."""

import psycopg
import pytest
from psycopg.pq import ExecStatus

from perdure.store.databases.postgres.pipeline import READERS, TEXTS, numbered_statement
from perdure.store.statements import load
from tests.conftest import Scratch

pytestmark = pytest.mark.postgres

OF_THE_STORE = {
    "fact": "facts belong to a scope",
    "restore_exempt": "exemptions belong to a restore",
    "notification": "its id is what receivers compare",
    "model_usage": "it is summed by day, over all sessions",
    "access": "reads are kept by time, also those of no session",
    "feed": "it is read in the order of commits, over all sessions",
    "exemption": "exemptions may cover many sessions",
    "exemption_use": "uses belong to an exemption",
    "search_entry": "the index of all sessions is read by the order in which it was made",
}
HOT = ("session", "effect", "attempt", "wait", "lease", "queue", "rate_limit", "worker")

KEYS = """
    select class.relname, con.conname, con.contype, (
        select array_agg(attname order by place) from unnest(con.conkey) with ordinality as key (number, place)
        join pg_attribute on attrelid = class.oid and attnum = number
    )
    from pg_constraint as con join pg_class as class on class.oid = con.conrelid
    where con.contype in ('p', 'u', 'f') and class.relnamespace = 'public'::regnamespace and exists (
        select 1 from pg_attribute where attrelid = class.oid and attname = 'session_uid'
    )
"""


def test_keys_of_a_session_begin_with_its_uid(scratch: Scratch) -> None:
    with psycopg.connect(scratch.url) as db:
        keys = [row for row in db.execute(KEYS).fetchall() if row[0] not in OF_THE_STORE]
    assert {table for table, *_ in keys} >= {"event", "effect", "attempt", "approval", "vote", "wait", "inbox", "step"}
    assert [(table, name) for table, name, _, columns in keys if columns[0] != "session_uid"] == []


def test_hot_tables_are_vacuumed_after_a_number_of_changes(scratch: Scratch) -> None:
    with psycopg.connect(scratch.url) as db:
        rows = db.execute("select relname, reloptions from pg_class where relname = any(%s)", [list(HOT)]).fetchall()
    options = {name: dict(one.split("=") for one in given) for name, given in rows}
    assert set(options) == set(HOT)
    for name, given in options.items():
        assert float(given["autovacuum_vacuum_scale_factor"]) <= 0.02, name
        assert int(given["fillfactor"]) <= 80, name


def test_columns_of_statements_have_types_that_are_read(scratch: Scratch) -> None:
    known = {*READERS, *TEXTS}
    unknown = []
    with psycopg.connect(scratch.url, autocommit=True) as db:
        for name in load("postgres"):
            db.pgconn.prepare(b"", numbered_statement(name)[0])
            described = db.pgconn.describe_prepared(b"")
            assert described.status == ExecStatus.COMMAND_OK, name
            unknown += [(name, kind) for kind in map(described.ftype, range(described.nfields)) if kind not in known]
    assert unknown == []
