"""Roles on PostgreSQL: every role logs in and tries every verb on every table."""

import re
from collections.abc import Iterator
from itertools import count, product
from typing import Any

import psycopg
import pytest
from psycopg import errors

from perdure import faults
from perdure.control.roles import apply_roles, examine_roles, role_statements
from perdure.errors import NotPermitted
from perdure.runtime.deploy.migration import migrate_store
from perdure.store import migrate
from perdure.store.databases.postgres.database import connect_direct
from perdure.store.databases.postgres.migrator import PostgresMigrator
from perdure.store.inspection import read_access
from perdure.store.rights import ROLES, TABLES, granted
from perdure.store.statements import load
from perdure.store.store import open_store
from perdure.testing.postgres import PostgresServer

pytestmark = pytest.mark.postgres
PREFIX = "test"


@pytest.fixture(scope="module")
def url(postgres_server: PostgresServer) -> Iterator[str]:
    """A store with roles, and a login for each role, named like the role's last part with `_login`."""
    url = postgres_server.create_database()
    open_store(url).close()
    apply_roles(url, PREFIX)
    with psycopg.connect(url, autocommit=True) as db:
        for role in ROLES:
            db.execute(f"create role {role}_login login password 'secret' in role {PREFIX}_{role}".encode())
    yield url
    with psycopg.connect(url, autocommit=True) as db:
        for role in ROLES:
            db.execute(f"drop role {role}_login".encode())
    postgres_server.drop_database(url)


def as_role(url: str, role: str) -> str:
    """The address with the login of a role."""
    return re.sub(r"//[^@]+@", f"//{role}_login:secret@", url)


@pytest.fixture(scope="module")
def columns(url: str) -> dict[str, list[str]]:
    with psycopg.connect(url) as db:
        rows = db.execute(
            "select table_name, column_name from information_schema.columns where table_schema = 'public' order by 1, 2"
        ).fetchall()
    found: dict[str, list[str]] = {}
    for table, column in rows:
        found.setdefault(table, []).append(column)
    return found


def may(db: psycopg.Connection[Any], statement: str) -> bool:
    """Whether a statement that changes nothing is permitted."""
    try:
        with db.transaction():
            db.execute(statement.encode())
            raise psycopg.Rollback
    except errors.InsufficientPrivilege:
        return False
    return True


def tried(table: str, verb: str, column: str) -> str:
    """A statement that needs exactly this right, and changes no row."""
    return {
        "select": f"select {column} from {table} where false",
        "insert": f"insert into {table} ({column}) select null where false",
        "update": f"update {table} set {column} = null",
        "delete": f"delete from {table}",
        "truncate": f"truncate {table}",
    }[verb] + (" where false" if verb in ("update", "delete") else "")


@pytest.mark.parametrize("role", ROLES[:-1])
def test_each_role_may_do_exactly_what_is_declared(url: str, columns: dict[str, list[str]], role: str) -> None:
    wrong = []
    with psycopg.connect(as_role(url, role), autocommit=True) as db:
        for table, verb in product(TABLES, ("select", "insert", "update", "delete", "truncate")):
            declared = granted(table, role)
            for column in columns[table] if verb in ("insert", "update") else columns[table][:1]:
                wanted = verb in declared and (not declared[verb] or column in declared[verb])
                if may(db, tried(table, verb, column)) != wanted:
                    wrong.append(f"{role} {verb} {table}.{column}: {not wanted}")
    assert wrong == []


@pytest.mark.parametrize("role", ROLES[:-1])
@pytest.mark.parametrize(
    "statement",
    [
        "create table more (id int)",
        "alter table session add column more int",
        "drop table vote",
        "alter table vote disable trigger all",
        "create view more as select 1",
        "create function perdure_more() returns int language sql as 'select 1'",
        "drop trigger event_is_append_only on event",
        "update meta set value = '99' where key = 'schema_version'",
        "insert into meta (key, value) values ('roles', 'mine') on conflict (key) do update set value = excluded.value",
        "set session_replication_role = replica",
        "set role test_owner",
    ],
)
def test_only_the_owner_changes_the_schema(url: str, role: str, statement: str) -> None:
    with psycopg.connect(as_role(url, role), autocommit=True) as db, pytest.raises(errors.InsufficientPrivilege):
        db.execute(statement.encode())


def test_the_owner_migrates_and_gives_rights_on_new_tables(url: str) -> None:
    owner = as_role(url, "owner")
    with psycopg.connect(owner, autocommit=True) as db:
        db.execute("grant insert on vote to test_worker")
    with read_access.read_store(read_access.locate_store(owner)) as found:
        report = examine_roles(found.tx)
    assert report.differences == ["test_worker may insert on vote"]
    assert (report.in_force, report.is_owner, report.is_superuser) == (False, True, False)
    assert apply_roles(owner).in_force


@pytest.mark.parametrize("role", ["worker", "approver", "auditor"])
def test_a_vote_by_another_role_than_the_service_is_refused(url: str, role: str) -> None:
    with psycopg.connect(as_role(url, role), autocommit=True) as db, pytest.raises(errors.InsufficientPrivilege):
        db.execute(
            "insert into vote (session_uid, approval_id, voter, decision, rationale, at) "
            "values ('u', 'a', 'grace', 'approved', '', 1)"
        )


def test_a_worker_cannot_insert_an_approval_that_is_decided(url: str) -> None:
    with psycopg.connect(as_role(url, "worker"), autocommit=True) as db, pytest.raises(errors.InsufficientPrivilege):
        db.execute(
            "insert into approval (session_uid, id, effect_id, gate, intent_digest, requester, requester_may_decide, "
            "quorum, asked_at, decision, decided_at) values ('u', 'a', 'e', 'g', 'd', 'r', 1, 1, 1, 'approved', 1)"
        )


def test_report_names_the_login_and_the_members(url: str) -> None:
    with read_access.read_store(read_access.locate_store(as_role(url, "auditor"))) as found:
        report = examine_roles(found.tx)
    assert (report.prefix, report.login, report.is_owner, report.differences) == (PREFIX, "auditor_login", False, [])
    assert report.members == {f"test_{role}": [f"{role}_login"] for role in ROLES}


def test_auditors_and_the_service_read_the_views(url: str) -> None:
    for role, readable in (("auditor", True), ("service", True), ("worker", False), ("approver", False)):
        with psycopg.connect(as_role(url, role), autocommit=True) as db:
            assert {may(db, f"select * from {name}") for name in migrate.view_names()} == {readable}


def test_printed_statements_make_the_same_roles(postgres_server: PostgresServer) -> None:
    url = postgres_server.create_database()
    open_store(url).close()
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(role_statements("printed").encode())
        db.execute("insert into meta (key, value) values ('roles', 'printed')")
    with read_access.read_store(read_access.locate_store(url)) as found:
        assert examine_roles(found.tx).in_force
    postgres_server.drop_database(url)


def test_a_killed_migration_gives_the_rights_when_repeated(postgres_server: PostgresServer) -> None:
    url = postgres_server.create_database()
    steps, points = migrate.load("postgres"), count(1)
    with connect_direct(url) as db:
        migrate.migrate(PostgresMigrator(db), steps[:15])
        PostgresMigrator(db).give_rights("killed")

    def fail(point: str) -> None:
        if point == "migrate.after" and next(points) == len(steps) - 15 + 1:  # in the transaction of the rights
            raise KeyboardInterrupt

    faults.arm(fail)
    with pytest.raises(KeyboardInterrupt):
        migrate_store(url)
    faults.arm(lambda _: None)
    again = migrate_store(url)
    assert (again.before, again.after, again.rights_corrected) == (len(steps), len(steps), True)
    with read_access.read_store(read_access.locate_store(url)) as found:
        assert examine_roles(found.tx).differences == []
    assert not migrate_store(url).rights_corrected
    postgres_server.drop_database(url)


def test_a_login_without_a_role_is_told_so(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("create role stranger_login login password 'secret'")
    try:
        with pytest.raises(NotPermitted):
            open_store(as_role(url, "stranger"))
    finally:
        with psycopg.connect(url, autocommit=True) as db:
            db.execute("drop role stranger_login")


# Statements that a worker does not need: what people decide or change, removal, and import.
NOT_FOR_WORKERS = re.compile(
    r"(removal|transfer|control_event|feed)\.|policy\.(insert|activate|freeze|thaw|set)|vote\.insert|event\.erase"
    r"|exemption\.(insert|revoke)|access\.forget|approval\.withdraw|policy\.(lock|put)_fence|principal\.|notification\.remove_channel"
    r"|(token|request|sign_in)\."
    r"|queue\.update|schedule\.(insert|change|pause|remove)"
)


def test_a_worker_may_run_every_statement_that_it_needs(url: str) -> None:
    refused = []
    with psycopg.connect(as_role(url, "worker"), autocommit=True) as db:
        for name, text in load("postgres").items():
            numbers: dict[str, int] = {}
            plain = re.sub(r"%\((\w+)\)s", lambda one: f"${numbers.setdefault(one[1], len(numbers) + 1)}", text)  # noqa: B023
            try:
                db.execute(f"explain (generic_plan) {plain}".encode())
            except errors.InsufficientPrivilege:
                refused.append(name)
            except psycopg.Error:
                pass
    missing = [name for name in refused if not NOT_FOR_WORKERS.match(name)]
    assert not missing, missing
    assert "vote.insert" in refused
