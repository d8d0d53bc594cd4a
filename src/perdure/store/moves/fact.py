"""Moves and reads of facts. Optimistic: the writer names the version it read, 0 for none."""

from __future__ import annotations

from typing import Any

from perdure.domain.fact import Fact
from perdure.errors import ConfigError, Conflict
from perdure.ids import check_name, check_text, encode
from perdure.store.move import Log, StoreTransaction, outsider_move


@outsider_move
def remember(
    log: Log,
    scope: str,
    key: str,
    value: Any,
    *,
    expected: int | None = None,
    verify: str | None = None,
    stale_after: int | None = None,
) -> Fact:
    """Write a fact. `expected` is the version that was read (0: none); without it the newest one is overwritten."""
    check_name("The fact's scope", scope)
    check_name("The fact's key", key)
    check_text("How to verify the fact", verify or "")
    if stale_after is not None and stale_after <= 0:
        raise ConfigError("The time after which a fact is stale must be positive.")
    columns = {
        "scope": scope, "key": key, "value": encode(value), "verify": verify, "uid": log.uid, "by": log.actor,
        "now": log.tx.now, "stale_after": stale_after,
    }  # fmt: skip
    while not _write(log, columns, expected):  # another session wrote first: overwrite its version
        pass
    fact = get(log.tx, scope, key)
    assert fact is not None
    log.append("fact.remembered", rows={"fact": [fact.to_dict()]})
    return fact


def _write(log: Log, columns: dict[str, Any], expected: int | None) -> bool:
    """Replace the present version; False if it changed between reading and writing, and no version was expected.

    Facts are shared by sessions, so the session's lock does not keep other writers out.
    """
    scope, key = columns["scope"], columns["key"]
    known = get(log.tx, scope, key)
    version = known.version if known else 0
    if expected is not None and expected != version:
        raise _changed(scope, key, expected, version)
    name = "fact.update" if known else "fact.insert"
    more = {"was": version, "version": version + 1} if known else {}
    if log.tx.run(name, **columns, **more):
        return True
    if expected is not None:
        raise _changed(scope, key, expected, None)
    return False


@outsider_move
def record_verification(log: Log, scope: str, key: str, version: int) -> None:
    """Record that a fact was checked and still holds."""
    if not log.tx.run("fact.verify", scope=scope, key=key, version=version, now=log.tx.now):
        raise _changed(scope, key, version, None)
    fact = get(log.tx, scope, key)
    assert fact is not None
    log.append("fact.verified", rows={"fact": [fact.to_dict()]})  # all columns: another session may have written it


@outsider_move
def forget(log: Log, scope: str, key: str, version: int) -> None:
    """Delete a fact, as of the version that was read."""
    if not log.tx.run("fact.delete", scope=scope, key=key, version=version):
        raise _changed(scope, key, version, None)
    log.append("fact.forgotten", rows={"fact": [{"scope": scope, "key": key, "forgotten": True}]})


def _changed(scope: str, key: str, read: int, now: int | None) -> Conflict:
    found = "it is gone or newer" if now is None else f"it is at version {now}"
    return Conflict(f"Fact {scope}/{key} changed since version {read} was read; {found}.")


def get(tx: StoreTransaction, scope: str, key: str) -> Fact | None:
    row = tx.one("fact.get", scope=scope, key=key)
    return Fact.from_row(row) if row else None


def listing(tx: StoreTransaction, scope: str | None = None, *, limit: int = 1000) -> list[Fact]:
    return [Fact.from_row(row) for row in tx.all("fact.list", scope=scope, limit=limit)]
