"""The views for reports: the same on both databases, and never in the way of a migration."""

import re
from collections.abc import Iterator

import pytest

from perdure.store import migrate
from perdure.store.inspection import read_access
from perdure.store.store import Store, open_store
from perdure.store.upgrade import migrator
from perdure.testing.postgres import PostgresServer
from tests.store.support.sessions import a_session
from tools.view_reference import COLUMNS, VIEWS, columns


def test_every_view_and_column_is_documented() -> None:
    found = columns()
    assert list(VIEWS) == list(found)
    assert {column for names in found.values() for column in names} == set(COLUMNS)


def test_removed_views_are_those_that_are_made() -> None:
    made = re.findall(r"^create view ([a-z_]+) as$", migrate.views("sqlite")[1], re.MULTILINE)
    assert made == migrate.view_names()


@pytest.mark.databases("sqlite", "memory", "postgres")
def test_views_have_the_documented_columns_on_each_database(store: Store) -> None:
    a_session(store)
    for name, names in columns().items():
        listed = ", ".join(names)
        rows = store.read_now(lambda tx, name=name, listed=listed: tx.execute(f"select {listed} from {name}", []))  # type: ignore[misc]
        assert len(rows) == (1 if name == "perdure_sessions" else 0), name


@pytest.fixture
def own(request: pytest.FixtureRequest, target: str) -> Iterator[str]:
    """The address of a store whose schema this test may change."""
    if not target.startswith("postgresql:"):
        yield target
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url = server.create_database()
    open_store(url).close()
    yield url
    server.drop_database(url)


@pytest.mark.databases("sqlite", "postgres")
def test_views_do_not_block_a_later_migration(own: str) -> None:
    dialect = "postgres" if own.startswith("postgresql:") else "sqlite"
    change = "alter table vote drop column rationale; alter table vote add column rationale text"
    step = migrate.Migration(migrate.known() + 1, "later", "contract", 1, (change,), None)
    with migrator(read_access.locate_store(own)) as database:
        with pytest.raises(Exception, match="view"):
            database.apply(step.scripts, {})
        database.apply(migrate.with_views(step, *migrate.views(dialect)).scripts, {})
    with open_store(own) as store:
        assert store.read_now(lambda tx: tx.execute("select rationale from perdure_votes", [])) == []


def test_migrations_make_the_views_once_their_columns_exist() -> None:
    steps, (gone, made) = migrate.load("postgres"), migrate.views("postgres")
    assert {one.scripts[0] for one in steps if one.backfill is None} == {gone}
    assert [one.number for one in steps if made in one.scripts] == list(range(migrate.needed(steps), len(steps) + 1))
