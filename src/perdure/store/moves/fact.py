"""Moves and reads of facts. Optimistic: the writer names the version it read, 0 for none."""

from __future__ import annotations

from typing import Any

from perdure.domain.fact import ORDERS, Fact, orders_scope
from perdure.domain.record import same_json
from perdure.errors import ConfigError, Conflict
from perdure.ids import check_name, check_text, decode, encode
from perdure.store.move import Log, StoreTransaction, outsider_move, plain_move


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
    columns = _columns(log.tx, scope, key, value, verify, stale_after) | {"uid": log.uid, "by": log.actor}
    while not _write(log.tx, columns, expected):  # another session wrote first: overwrite its version
        pass
    fact = get(log.tx, scope, key)
    assert fact is not None
    log.append("fact.remembered", rows={"fact": [fact.to_dict()]})
    return fact


@plain_move
def set_shared(
    tx: StoreTransaction,
    scope: str,
    key: str,
    value: Any,
    *,
    by: str,
    expected: int | None = None,
    verify: str | None = None,
    stale_after: int | None = None,
) -> Fact:
    """Write a fact that belongs to no session. The same fact again, by the same person, is only verified again."""
    check_text("The name of who writes the fact", by)
    columns = _columns(tx, scope, key, value, verify, stale_after) | {"uid": None, "by": by}
    known = get(tx, scope, key)
    if known is not None and expected in (None, known.version - 1) and _is_same(known, columns):
        tx.run("fact.verify", scope=scope, key=key, version=known.version, now=tx.now)
    else:
        while not _write(tx, columns, expected):  # another process wrote first: overwrite its version
            pass
    fact = get(tx, scope, key)
    assert fact is not None
    return fact


@plain_move
def verify_shared(tx: StoreTransaction, scope: str, key: str, version: int) -> Fact:
    """Record that a fact which belongs to no session was checked and still holds."""
    if not tx.run("fact.verify", scope=scope, key=key, version=version, now=tx.now):
        raise _changed(scope, key, version, None)
    fact = get(tx, scope, key)
    assert fact is not None
    return fact


@plain_move
def forget_shared(tx: StoreTransaction, scope: str, key: str, version: int) -> None:
    """Forget a fact that belongs to no session, as of the version that was read. One that is gone is forgotten."""
    if not tx.run("fact.delete", scope=scope, key=key, version=version) and get(tx, scope, key) is not None:
        raise _changed(scope, key, version, None)


def _columns(
    tx: StoreTransaction, scope: str, key: str, value: Any, verify: str | None, stale_after: int | None
) -> dict[str, Any]:
    check_name("The fact's scope", scope)
    check_name("The fact's key", key)
    check_text("How to verify the fact", verify or "")
    if stale_after is not None and stale_after <= 0:
        raise ConfigError("The time after which a fact is stale must be positive.")
    return {
        "scope": scope, "key": key, "value": encode(value), "verify": verify, "now": tx.now, "stale_after": stale_after,
    }  # fmt: skip


def _is_same(known: Fact, columns: dict[str, Any]) -> bool:
    about = (known.verify, known.stale_after, known.updated_by)
    return about == (columns["verify"], columns["stale_after"], columns["by"]) and same_json(
        known.value, decode(columns["value"])
    )


def _write(tx: StoreTransaction, columns: dict[str, Any], expected: int | None) -> bool:
    """Replace the present version; False if it changed between reading and writing, and no version was expected.

    Facts are shared by sessions, so the session's lock does not keep other writers out.
    """
    scope, key = columns["scope"], columns["key"]
    known = get(tx, scope, key)
    version = known.version if known else 0
    if expected is not None and expected != version:
        raise _changed(scope, key, expected, version)
    name = "fact.update" if known else "fact.insert"
    more = {"was": version, "version": version + 1} if known else {}
    if tx.run(name, **columns, **more):
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


def orders(tx: StoreTransaction, repository: str | None, *, limit: int = 1000) -> list[Fact]:
    """The standing orders for an agent that works in a repository: those for every agent, then its own."""
    rows = tx.all("fact.orders", everywhere=ORDERS, scope=orders_scope(repository), limit=limit)
    return [Fact.from_row(row) for row in rows]
