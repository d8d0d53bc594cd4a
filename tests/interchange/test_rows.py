"""Every column of every table is exported, also one that is added later."""

from __future__ import annotations

import re

import pytest

from perdure.store.row_check import KEYS
from perdure.store.statements import RECORDS, load
from perdure.store.transfer.session_export import TABLES

WRITES = {name: (write,) for name, (_, write) in TABLES.items()} | {
    "session": ("transfer.insert_session",),
    "event": ("event.insert",),
    "approval": ("transfer.write_approval", "transfer.update_approval"),
    "effect": ("transfer.insert_effect", "transfer.update_effect"),
}
NOT_OF_A_SESSION = {
    "control_event",
    "policy",
    "policy_fence",
    "checkpoint",
    "lease",
    "exemption",
    "exemption_use",
    "notification",
    "notification_channel",
    "principal",
    "principal_login",
    "request",
    "sign_in",
    "queue",
    "rate_limit",
    "restore",
    "schedule",
    "token",
    "worker",
    "writer",
}
FIXED = {
    "uid",
    "id",
    "program",
    "created_at",
    "branch",
    "policy_at",
}  # of a session, from its first event on
PARENTS = {"parent_uid", "parent_wait", "forked_from", "forked_at"}


def parameters(name: str) -> set[str]:
    return set(re.findall(r"(?<![:\w]):([a-z_]+)", load("sqlite")[name]))


@pytest.mark.parametrize("table", sorted(WRITES))
def test_every_column_is_written(table: str) -> None:
    written = set[str]().union(*(parameters(name) for name in WRITES[table]))
    assert set(RECORDS[table].columns()) == written


def test_a_newer_import_updates_every_column_that_may_change() -> None:
    changing = set(RECORDS["session"].columns()) - FIXED - PARENTS
    given_back = {"lease_holder", "lease_nonce", "lease_until"}
    assert parameters("transfer.update_session") == (changing - given_back) | {"uid"}


def test_every_table_of_a_session_is_exported() -> None:
    assert KEYS.keys() == RECORDS.keys() - NOT_OF_A_SESSION
