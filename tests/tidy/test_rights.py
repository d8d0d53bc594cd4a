"""Every table has declared rights, so that a role cannot miss one and none is open by accident."""

import re

from perdure.store import migrate
from perdure.store.rights import ROLES, TABLES, granted

CREATED = re.compile(r"^create table ([a-z_]+)", re.MULTILINE)
RENAMED = re.compile(r"^alter table ([a-z_]+) rename to ([a-z_]+)", re.MULTILINE)
DROPPED = re.compile(r"^drop table ([a-z_]+)", re.MULTILINE)


def tables() -> set[str]:
    text = "\n".join(script for one in migrate.load("postgres") for script in one.scripts)
    return set(CREATED.findall(text)) - set(DROPPED.findall(text))


def test_every_table_has_declared_rights() -> None:
    """A table that is missing in `perdure.store.rights.TABLES` needs an entry there."""
    assert set(TABLES) == tables()


def test_rights_name_roles_that_exist() -> None:
    assert {role for given in TABLES.values() for role in given} <= {"worker", "service", "approver"} < set(ROLES)


def test_auditors_and_approvers_only_read() -> None:
    reading = {verb for table in TABLES for role in ("auditor", "approver") for verb in granted(table, role)}
    assert reading == {"select"}


def test_workers_cannot_write_what_people_decide() -> None:
    decided = {"vote", "policy", "principal", "principal_role", "token"} & set(TABLES)
    assert {table for table in decided if set(granted(table, "worker")) - {"select"}} == set()
