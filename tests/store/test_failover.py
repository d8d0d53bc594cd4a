"""A living process across a change of server: real servers, a real promotion, connections of every age."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from perdure.domain.restore import Cause
from perdure.errors import StoreUnavailable
from perdure.store import meta, restore
from perdure.store.databases.postgres import PostgreSQL
from perdure.store.databases.postgres_connection import Connection
from perdure.store.move import Transaction, plain_move
from perdure.store.ticket import reading
from perdure.testing.postgres import PostgresServer
from perdure.testing.standby import Standby
from tests.memory import MEMORY

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


@pytest.fixture
def pair() -> Iterator[tuple[PostgresServer, Standby]]:
    with PostgresServer(MEMORY) as primary, Standby(primary, MEMORY) as standby:
        yield primary, standby


def epochs(tx: Transaction) -> list[tuple[int, str]]:
    return [(one.epoch, one.cause) for one in restore.everything(tx)]


@plain_move
def epochs_as_a_write_sees_them(tx: Transaction) -> list[tuple[int, str]]:
    tx.send("meta.put", key="x", value="y")
    return epochs(tx)


@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_first_connection_compares_timelines_before_its_first_statement(
    kind: str, pair: tuple[PostgresServer, Standby]
) -> None:
    primary, standby = pair
    database = PostgreSQL(standby.url_of_both(primary.create_database()), connections=2)
    try:
        primary.kill()
        standby.promote()
        first = Connection(database)
        if kind == "read":
            found = first.read(reading(epochs))
        else:
            found = first.write(epochs_as_a_write_sees_them())
        assert found == [(2, Cause.TIMELINE)]
        assert database.restore_epoch == 2
        first.close()
    finally:
        database.close()


def test_a_process_that_saw_the_new_primary_refuses_the_old_one(pair: tuple[PostgresServer, Standby]) -> None:
    primary, standby = pair
    url = primary.create_database()
    database = PostgreSQL(url, connections=2)
    try:
        early = Connection(database)
        early.write(meta.put("who", "the old primary"))
        standby.promote()
        database.url = standby.url_of(url.rpartition("/")[2])
        late = Connection(database)
        late.write(meta.put("who", "the new primary"))
        assert early.read(reading(lambda tx: meta.get(tx, "who"))) == "the new primary"
        early.close()
        database.url = url
        with pytest.raises(StoreUnavailable, match="timeline"):
            Connection(database).read(reading(epochs))
        late.close()
    finally:
        database.close()
