"""Moves and reads of tokens.

    create    only an owner; the token becomes a login of its principal
    rotate    an owner, or the token itself: a new token with the same scopes, and an end for the old one. What a token
              makes of itself ends with it at the latest: one that leaked cannot prolong its life
    revoke    an owner, or the token itself: it and the tokens that it was rotated to are refused from the commit on,
              and their votes count no more
    forget    some time after it has ended; the control log keeps that it was created and revoked

Each change is a line of the control log, in the same transaction. The caller makes the secret: the store sees only its
digest. Who may create a token decides what it may do, so a token cannot create one with more scopes than its own.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection, Iterator, Sequence

import msgspec

from perdure.clock import SECOND
from perdure.domain.caller import EVERYTHING, Caller, check_scopes, is_within
from perdure.domain.principal import Principal, Role
from perdure.domain.token import Token, TokenView, token_id, view_of
from perdure.errors import ConfigError, Conflict, IllegalMove, NotFound
from perdure.ids import check_text, digest, encode
from perdure.store.move import StoreTransaction, plain_move
from perdure.store.moves import control_log, principal

MANY = 10_000
BATCH = 1000  # that are forgotten in one transaction
NOTED = 60 * SECOND  # how exactly the last use of a token is recorded
MOST_LABEL = 200


@plain_move
def create(
    tx: StoreTransaction,
    id: str,
    secret_digest: str,
    name: str,
    *,
    by: str,
    scopes: Collection[str] = (),
    label: str = "",
    expires_at: int | None = None,
) -> TokenView:
    """Create a token of a principal."""
    wanted = check_scopes(scopes)
    check_text("Who creates the token", by)
    if len(check_text("The label", label)) > MOST_LABEL:
        raise ConfigError(f"The label of a token has at most {MOST_LABEL} characters.")
    tx.one("meta.lock", key=control_log.LOCK)
    if control_log.was_written(tx):
        return view(tx, get(tx, id))
    _check_owner(tx, wanted)
    return _insert(tx, id, secret_digest, principal.get(tx, name), wanted, by, label, expires_at)


@plain_move
def rotate(
    tx: StoreTransaction,
    old_id: str,
    id: str,
    secret_digest: str,
    *,
    by: str,
    until: int,
    expires_at: int | None = None,
) -> TokenView:
    """Replace a token by a new one with the same scopes. The old one is valid until the given time, at the latest."""
    check_text("Who rotates the token", by)
    tx.one("meta.lock", key=control_log.LOCK)
    if control_log.was_written(tx):
        return view(tx, get(tx, id))
    old = _usable(tx, old_id)
    _check_owner(tx, old.scopes, itself=old)
    if old.rotated_to is not None:
        raise Conflict(f"Token {old.id} was rotated already, to {old.rotated_to}.", hint="Rotate that one.")
    owner = _principal_of(tx, old)
    if owner is None:
        raise IllegalMove(f"The principal of token {old.id} was removed.")
    if tx.identity == old.login and old.expires_at is not None:
        expires_at = min(old.expires_at, expires_at or old.expires_at)
    made = _insert(tx, id, secret_digest, owner, old.scopes, by, old.label, expires_at)
    ends = until if old.expires_at is None else min(until, old.expires_at)
    tx.run("token.rotate", id=old.id, rotated_to=id, expires_at=max(ends, old.created_at))
    return made


@plain_move
def revoke(tx: StoreTransaction, id: str, *, by: str) -> TokenView:
    """Revoke a token and those that it was rotated to. One that is revoked already stays as it is."""
    check_text("Who revokes the token", by)
    tx.one("meta.lock", key=control_log.LOCK)
    row = tx.one("token.lock", id=id)
    if row is None:
        raise _unknown(id)
    found = Token.from_row(row)
    _check_owner(tx, found.scopes, itself=found)
    ended = [_revoke(tx, one, by) for one in _with_successors(tx, found) if one.revoked_at is None]
    return msgspec.structs.replace(view(tx, get(tx, id)), also_revoked=[one for one in ended if one != id])


def _with_successors(tx: StoreTransaction, first: Token) -> Iterator[Token]:
    """A token, and those that it was rotated to, one after the other."""
    one: Token | None = first
    while one is not None:
        yield one
        row = tx.one("token.lock", id=one.rotated_to or "")
        one = None if row is None else Token.from_row(row)


def _revoke(tx: StoreTransaction, one: Token, by: str) -> str:
    tx.run("token.revoke", id=one.id, by=by, now=tx.now)
    if not _is_last_login_of_owners(tx, one):
        tx.run("principal.remove_login", uid=one.principal_uid, login=one.login, now=tx.now)
    return _report(tx, "token.revoked", by, view(tx, get(tx, one.id))).id


@plain_move
def note_use(tx: StoreTransaction, ids: Sequence[str]) -> None:
    """Note that tokens were used, to the minute."""
    for id in sorted(ids):
        tx.run("token.use", id=id, now=tx.now - tx.now % NOTED)


@plain_move
def forget(tx: StoreTransaction, before: int, *, limit: int = BATCH) -> int:
    """Forget tokens that were revoked or expired before a time, with their logins; returns how many."""
    tx.one("meta.lock", key=control_log.LOCK)
    gone = [Token.from_row(row) for row in tx.all("token.ended", before=before, limit=limit)]
    for one in gone:
        if not _is_last_login_of_owners(tx, one):
            tx.run("principal.remove_login", uid=one.principal_uid, login=one.login, now=tx.now)
        tx.run("token.forget", id=one.id)
    return len(gone)


def has_ended_before(tx: StoreTransaction, before: int) -> bool:
    """Whether there are tokens that were revoked or expired before a time."""
    return tx.one("token.ended", before=before, limit=1) is not None


def _insert(
    tx: StoreTransaction, id: str, secret_digest: str, of: Principal, scopes: Sequence[str], by: str, label: str,
    expires_at: int | None,
) -> TokenView:  # fmt: skip
    if expires_at is not None and expires_at <= tx.now:
        raise ConfigError("The token would have expired already.")
    values = {"principal_uid": of.uid, "label": label, "scopes": encode(list(scopes)), "expires_at": expires_at}
    tx.run("token.insert", id=id, digest=secret_digest, by=by, now=tx.now, **values)
    tx.run("principal.add_login", uid=of.uid, login=f"token:{id}", by=by, now=tx.now)
    return _report(tx, "token.created", by, view(tx, get(tx, id)))


def _check_owner(tx: StoreTransaction, scopes: Collection[str], itself: Token | None = None) -> None:
    """Only an owner may, or the token itself; and none may hand on more than it has."""
    if itself is not None and tx.identity == itself.login:
        return
    me = principal.of_identity(tx, tx.identity)
    if me is None or Role.OWNER not in me.roles:
        who = f"{tx.identity} is not registered" if me is None else f"{me.name} is not an owner"
        raise IllegalMove(
            f"Only an owner changes tokens, and {who}.",
            hint="`perdure principals` lists the owners; in a new store, first add yourself.",
        )
    row = tx.one("token.get", id=tx.identity.removeprefix("token:"))
    if row is not None and not is_within(scopes, Token.from_row(row).scopes):
        raise IllegalMove("A token cannot hand on scopes that it does not have.")


def _is_last_login_of_owners(tx: StoreTransaction, one: Token) -> bool:
    """Whether no owner would be left with a login. Then it stays, although the token cannot be used any more."""
    return {login for each in principal.listing(tx) if Role.OWNER in each.roles for login in each.logins} == {one.login}


def _usable(tx: StoreTransaction, id: str) -> Token:
    row = tx.one("token.lock", id=id)
    if row is None:
        raise _unknown(id)
    found = Token.from_row(row)
    if found.state(tx.now) != "active":
        raise IllegalMove(f"Token {id} is {found.state(tx.now)}.", hint="Create a new one with `perdure token create`.")
    return found


def _report(tx: StoreTransaction, kind: str, by: str, one: TokenView) -> TokenView:
    about = {"id": one.id, "principal": one.principal, "scopes": one.scopes, "expires_at": one.expires_at}
    control_log.append(tx, kind, by, {"identity": tx.identity, "token": about})
    return one


def _unknown(id: str) -> NotFound:
    return NotFound(f"There is no token {id!r:.40}.", hint="`perdure token` lists them.")


def get(tx: StoreTransaction, id: str) -> Token:
    """One token by its id."""
    row = tx.one("token.get", id=id)
    if row is None:
        raise _unknown(id)
    return Token.from_row(row)


def find(tx: StoreTransaction, prefix: str) -> Token:
    """One token by its id or a unique prefix of it; its whole text is accepted too."""
    wanted = token_id(prefix) or prefix
    rows = tx.all("token.starting_with", first=wanted, beyond=wanted + "~", limit=2) if wanted else []
    if len(rows) > 1:
        raise Conflict(f"Several tokens begin with {wanted!r:.40}.", hint="Give more of the id.")
    if not rows:
        raise _unknown(wanted)
    return Token.from_row(rows[0])


def view(tx: StoreTransaction, one: Token) -> TokenView:
    """A token for people."""
    owner = _principal_of(tx, one)
    return view_of(one, "" if owner is None else owner.name, tx.now)


def listing(tx: StoreTransaction) -> list[TokenView]:
    """The tokens, the newest first."""
    return [view(tx, Token.from_row(row)) for row in tx.all("token.list", limit=MANY)]


def count_usable(tx: StoreTransaction) -> int:
    """How many tokens can still be used."""
    row = tx.one("token.count", now=tx.now)
    return row[0] if row else 0


def _principal_of(tx: StoreTransaction, one: Token) -> Principal | None:
    row = tx.one("token.principal", uid=one.principal_uid)
    return None if row is None else Principal.from_row(row)


def authenticate(tx: StoreTransaction, text: str) -> Caller | None:
    """Who presents this token; None if it is forged, expired, revoked, or its principal was removed."""
    id = token_id(text)
    row = None if id is None else _with_principal(tx, id)
    if row is None or not hmac.compare_digest(row[0].digest, digest(text)):
        return None
    return _caller(tx, *row)


def caller_of(tx: StoreTransaction, id: str) -> Caller | None:
    """What a token that was presented before may do now; None if it may do nothing any more."""
    row = _with_principal(tx, id)
    return None if row is None else _caller(tx, *row)


def _with_principal(tx: StoreTransaction, id: str) -> tuple[Token, Principal] | None:
    """A token, and the principal that it is a login of."""
    tokens, principals = tx.all_of("token.get", "principal.by_login", id=id, login=f"token:{id}")
    if not tokens or not principals:
        return None
    found, owner = Token.from_row(tokens[0]), Principal.from_row(principals[0])
    return (found, owner) if owner.uid == found.principal_uid else None


def _caller(tx: StoreTransaction, found: Token, owner: Principal) -> Caller | None:
    if found.state(tx.now) != "active":
        return None
    return Caller(
        name=owner.name, identity=found.login, roles=frozenset(owner.roles), scopes=tuple(found.scopes),
        principal_uid=owner.uid, token_id=found.id, expires_at=found.expires_at,
    )  # fmt: skip


def peer(tx: StoreTransaction, identity: str, *, own: str) -> Caller | None:
    """Who a process of this machine is, by its user id.

    In a store without principals the user of the service itself is its owner, and no other user may do anything.
    """
    owner = principal.of_identity(tx, identity)
    if owner is not None:
        return Caller(owner.name, identity, frozenset(owner.roles), (EVERYTHING,), owner.uid)
    if principal.is_governed(tx) or identity != own:
        return None
    return Caller(identity, identity, frozenset({str(Role.OWNER)}), (EVERYTHING,))
