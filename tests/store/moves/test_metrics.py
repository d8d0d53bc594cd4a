"""The numbers for monitoring: what they count, and that they read indexes and a bounded number of rows."""

from __future__ import annotations

import re
from typing import Any

import pytest

from perdure.store.move import StoreTransaction
from perdure.store.moves import metrics
from perdure.store.moves import session as sessions
from perdure.store.statements import load
from perdure.store.store import Store
from tests.store.support.sessions import a_holder, a_session, connection_of

VALUES: dict[str, Any] = {"most": 1000, "since": 0, "queues": 10}
NAMES = sorted(name for name in load("sqlite") if name.startswith("metrics.") and name != "metrics.workers")


def test_numbers_follow_the_sessions(store: Store) -> None:
    before = store.read_now(metrics.read)
    assert (before.sessions["ready"], before.doubts, before.oldest_doubt) == (0, 0, None)
    a_session(store, id="one")
    holder = a_holder(store, a_session(store, id="two").uid)
    found = store.read_now(metrics.read)
    assert (found.sessions["ready"], found.sessions["running"], found.queues) == (1, 1, {"default": 1})
    store.write_now(sessions.release(holder))
    assert store.read_now(metrics.read).sessions["ready"] == 2


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("name", NAMES)
def test_each_query_reads_an_index_on_sqlite(store: Store, name: str) -> None:
    def plan(tx: StoreTransaction) -> list[str]:
        db = connection_of(tx)
        return [row[3] for row in db.execute(f"explain query plan {load('sqlite')[name]}", VALUES)]

    scans = [
        line for line in store.read_now(plan) if re.match(r"(SCAN|SEARCH) (session|effect|wait|notification)\b", line)
    ]
    assert scans
    assert [line for line in scans if "INDEX" not in line] == []


@pytest.mark.databases("postgres")
@pytest.mark.parametrize("name", NAMES)
def test_each_query_reads_an_index_on_postgres(target: str, name: str) -> None:
    import psycopg

    with psycopg.connect(target) as db:
        db.execute("set enable_seqscan = off")
        lines = [row[0] for row in db.execute(f"explain {load('postgres')[name]}".encode(), VALUES)]
    assert [line for line in lines if "Index" in line]
    assert [line for line in lines if "Seq Scan on" in line] == []
