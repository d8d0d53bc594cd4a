"""Queries that are asked ahead: the same answers, in fewer round trips where the database is a server."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.store.move import Row, StoreTransaction
from perdure.store.store import Store
from tests.store.support.sessions import a_session

pytestmark = pytest.mark.databases("sqlite", "postgres", "files")


def ahead(tx: StoreTransaction) -> None:
    tx.ask_ahead("session.get_by_id", id="one")
    tx.ask_ahead("session.get_by_id", id="none")


def ids(rows: list[list[Row]]) -> list[list[Any]]:
    return [[row[1] for row in some] for some in rows]


def test_what_was_asked_ahead_is_answered_as_if_it_was_not(store: Store) -> None:
    uids = {id: a_session(store, id).uid for id in ("one", "two")}

    def read(tx: StoreTransaction) -> list[list[Row]]:
        ahead(tx)
        first = tx.all_of("session.get", "session.get_by_id", uid=uids["two"], id="two")
        return [*first, *(tx.all("session.get_by_id", id=id) for id in ("none", "one", "two", "one"))]

    assert ids(store.read_now(read)) == [["two"], ["two"], [], ["one"], ["two"], ["one"]]


def test_a_query_that_was_asked_ahead_may_come_first(store: Store) -> None:
    a_session(store, "one")

    def read(tx: StoreTransaction) -> list[list[Row]]:
        ahead(tx)
        return [tx.all("session.get_by_id", id=id) for id in ("none", "one", "one")]

    assert ids(store.read_now(read)) == [[], ["one"], ["one"]]


@pytest.mark.databases("postgres")
def test_they_share_the_round_trip_of_the_next_query(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from perdure.store.databases.postgres.pipeline import StatementPipeline

    a_session(store, "one")
    trips, flush = list[int](), StatementPipeline._flush

    def counted(self: StatementPipeline) -> None:
        trips.append(1)
        flush(self)

    monkeypatch.setattr(StatementPipeline, "_flush", counted)

    def read(tx: StoreTransaction) -> list[int]:
        counts = [len(trips)]
        ahead(tx)
        for id in ("two", "one", "none", "one"):
            tx.one("session.get_by_id", id=id)
            counts.append(len(trips) - counts[0])
        return counts[1:]

    assert store.read_now(read) == [1, 1, 1, 2]
