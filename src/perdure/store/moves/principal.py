"""Moves and reads of principals: who the people and programs of a store are, and what each may do.

    first      the first principal is who adds it, and an owner: otherwise it could lock out all others
    later      only an owner may add, change or remove principals, and the last owner stays

Each change is a line of the control log, in the same transaction. The log is locked first: two owners cannot remove
each other at the same time.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from perdure.domain.identity import Identity
from perdure.domain.principal import (
    Principal,
    PrincipalKind,
    PrincipalLogin,
    PrincipalView,
    Role,
    Voter,
    check_name_of_principal,
    check_roles,
)
from perdure.errors import ConfigError, Conflict, IllegalMove, NotFound
from perdure.ids import check_text, encode
from perdure.store.move import StoreTransaction, plain_move
from perdure.store.moves import control_log

MANY = 10_000


@plain_move
def put(
    tx: StoreTransaction,
    uid: str,
    name: str,
    *,
    by: str,
    kind: str | None = None,
    roles: Collection[str] | None = None,
    logins: Collection[str] = (),
    must_exist: bool | None = None,
) -> PrincipalView:
    """Add a principal, or change one: its roles and kind are replaced if they are given, logins are added.

    With `must_exist` it does only the one (False) or the other (True). The first principal of a store must have the
    login of who adds it, and is an owner.
    """
    check_name_of_principal(name)
    check_text("Who makes the change", by)
    if kind is not None and kind not in set(PrincipalKind):
        raise ConfigError(f"{kind!r:.80} is not a kind of principal.", hint="It is `person` or `program`.")
    check_roles(roles or ())
    wanted = sorted({str(Identity.parse(one)) for one in logins})
    _lock(tx)
    if (done := _written(tx)) is not None:
        return done
    found = with_name(tx, name)
    if must_exist is not None and (found is not None) != must_exist:
        raise _unexpected(name, must_exist)
    if is_governed(tx):
        _check_owner(tx)
    else:
        wanted, roles = wanted or [tx.identity], roles or [Role.OWNER]
        _check_first(tx, wanted, roles)
    before = None if found is None else view(tx, found)
    _write(tx, uid, found, name, kind, roles, by)
    changed = get(tx, name)
    for login in wanted:
        _add_login(tx, changed, login, by)
    after = view(tx, changed)
    return after if before == after else _report(tx, "principal.put", by, after)


@plain_move
def remove(tx: StoreTransaction, name: str, *, by: str) -> PrincipalView:
    """Remove a principal. What it did stays on record; votes on approvals that are not decided count no more."""
    check_text("Who makes the change", by)
    _lock(tx)
    if (done := _written(tx)) is not None:
        return done
    found = get(tx, name)
    _check_owner(tx)
    if Role.OWNER in found.roles:
        _keep_an_owner(tx, found)
    was = view(tx, found)
    for login in was.logins:
        tx.run("principal.remove_login", uid=found.uid, login=login, now=tx.now)
    tx.run("principal.remove", uid=found.uid, now=tx.now)
    return _report(tx, "principal.removed", by, was)


@plain_move
def remove_login(tx: StoreTransaction, name: str, login: str, *, by: str) -> PrincipalView:
    """Take a login from a principal. The last login of the last owner stays."""
    check_text("Who makes the change", by)
    _lock(tx)
    if (done := _written(tx)) is not None:
        return done
    found, text = get(tx, name), str(Identity.parse(login))
    _check_owner(tx)
    held = view(tx, found)
    if text not in held.logins:
        raise NotFound(f"{name} has no login {text}.", hint="`perdure principals` lists the logins.")
    if Role.OWNER in found.roles and held.logins == [text]:
        _keep_an_owner(tx, found)
    tx.run("principal.remove_login", uid=found.uid, login=text, now=tx.now)
    return _report(tx, "principal.put", by, view(tx, found))


def _unexpected(name: str, must_exist: bool) -> NotFound | Conflict:
    if must_exist:
        return NotFound(f"There is no principal {name}.", hint=f"`perdure principals add {name}` adds it.")
    return Conflict(f"There is a principal {name} already.", hint=f"`perdure principals set {name}` changes it.")


def _check_first(tx: StoreTransaction, logins: Collection[str], roles: Collection[str]) -> None:
    if tx.identity not in logins or Role.OWNER not in roles:
        raise IllegalMove(
            f"The first principal of a store is its owner, who is you ({tx.identity}).",
            hint=f"Begin with yourself: `perdure principals add NAME --role owner --login {tx.identity}`.",
        )


def _write(
    tx: StoreTransaction,
    uid: str,
    found: Principal | None,
    name: str,
    kind: str | None,
    roles: Collection[str] | None,
    by: str,
) -> None:
    if found is None:
        _insert(tx, uid, name, kind or PrincipalKind.PERSON, roles or (), by)
    elif roles is not None or kind is not None:
        kept = found.roles if roles is None else check_roles(roles)
        if Role.OWNER in found.roles and Role.OWNER not in kept:
            _keep_an_owner(tx, found)
        tx.run("principal.update", uid=found.uid, kind=kind or found.kind, roles=encode(kept))


def _insert(tx: StoreTransaction, uid: str, name: str, kind: str, roles: Collection[str], by: str) -> None:
    values = {"uid": uid, "name": name, "kind": kind, "roles": encode(check_roles(roles)), "by": by, "now": tx.now}
    tx.run("principal.insert", **values)


def _add_login(tx: StoreTransaction, principal: Principal, login: str, by: str) -> None:
    has = of_identity(tx, login)
    if has is None:
        tx.run("principal.add_login", uid=principal.uid, login=login, by=by, now=tx.now)
    elif has.uid != principal.uid:
        raise Conflict(
            f"{login} is a login of {has.name} already.", hint="One login belongs to one principal; remove it there."
        )


def _lock(tx: StoreTransaction) -> None:
    """Make changes of principals one after another: two owners cannot remove each other at once."""
    tx.one("meta.lock", key=control_log.LOCK)


def _check_owner(tx: StoreTransaction) -> None:
    me = of_identity(tx, tx.identity)
    if me is None or Role.OWNER not in me.roles:
        who = f"{tx.identity} is not registered" if me is None else f"{me.name} is not an owner"
        raise IllegalMove(
            f"Only an owner changes principals, and {who}.", hint="`perdure principals` lists the owners."
        )


def _keep_an_owner(tx: StoreTransaction, but: Principal) -> None:
    owners = [one for one in listing(tx) if Role.OWNER in one.roles and one.logins and one.uid != but.uid]
    if not owners:
        raise IllegalMove(f"{but.name} is the last owner.", hint="Make another principal an owner first.")


def _report(tx: StoreTransaction, kind: str, by: str, one: PrincipalView) -> PrincipalView:
    control_log.append(tx, kind, by, {"identity": tx.identity, "principal": msgspec.to_builtins(one)})
    return one


def _written(tx: StoreTransaction) -> PrincipalView | None:
    """What this move has reported, if it runs again although it was committed."""
    lines = control_log.was_written(tx)
    return msgspec.convert(lines[0].body["principal"], PrincipalView) if lines else None


def is_governed(tx: StoreTransaction) -> bool:
    """Whether the store has principals."""
    row = tx.one("principal.count")
    return bool(row and row[0])


def with_name(tx: StoreTransaction, name: str) -> Principal | None:
    row = tx.one("principal.by_name", name=name)
    return None if row is None else Principal.from_row(row)


def get(tx: StoreTransaction, name: str) -> Principal:
    """One principal by its name."""
    found = with_name(tx, name)
    if found is None:
        raise NotFound(f"There is no principal {name!r:.80}.", hint="`perdure principals` lists them.")
    return found


def of_identity(tx: StoreTransaction, identity: str | None) -> Principal | None:
    """The principal that an authenticated identity belongs to."""
    row = None if not identity else tx.one("principal.by_login", login=identity)
    return None if row is None else Principal.from_row(row)


def ever_with_login(tx: StoreTransaction, identity: str) -> list[str]:
    """The uids of every principal that has or had a login, also one that was removed or revoked since."""
    return [row[0] for row in tx.all("principal.ever_with_login", login=identity, limit=MANY)]


def logins(tx: StoreTransaction, uid: str) -> list[str]:
    rows = tx.all("principal.logins", uid=uid, limit=MANY)
    return [PrincipalLogin.from_row(row).login for row in rows]


def view(tx: StoreTransaction, one: Principal) -> PrincipalView:
    """A principal as it is now, with its logins."""
    now = get(tx, one.name)
    return PrincipalView(
        name=now.name, kind=now.kind, roles=now.roles, logins=logins(tx, now.uid), added_by=now.added_by,
        added_at=now.added_at, uid=now.uid, version=now.version,
    )  # fmt: skip


def listing(tx: StoreTransaction) -> list[PrincipalView]:
    """The principals with their logins, by name."""
    return [view(tx, Principal.from_row(row)) for row in tx.all("principal.list", limit=MANY)]


def voter(tx: StoreTransaction, identity: str | None, name: str) -> Voter:
    """Who an identity is. A principal is shown by its name, and anyone else by the name that was given."""
    found = of_identity(tx, identity)
    if found is None:
        return Voter(name, identity or None)
    return Voter(found.name, identity, found, frozenset(logins(tx, found.uid)))
