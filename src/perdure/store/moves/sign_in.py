"""Moves and reads of sign-ins to the console.

    begin    a browser has a secret that stands for an identity, for some hours
    end      the person signs out: the secret is worth nothing from the commit on

Rights are not stored here: each request reads what the identity may do now.
"""

from __future__ import annotations

from perdure.domain.caller import EVERYTHING, Caller
from perdure.domain.identity import Identity
from perdure.domain.sign_in import LIFETIME, SignIn
from perdure.store.move import StoreTransaction, plain_move
from perdure.store.moves import principal, token

BATCH = 1000  # rows that are forgotten with each new sign-in


@plain_move
def begin(tx: StoreTransaction, secret_digest: str, identity: str) -> None:
    """Let the browser that has this secret act for an identity, and forget what has expired."""
    tx.run("sign_in.forget", now=tx.now, limit=BATCH)
    values = {"identity": str(Identity.parse(identity)), "expires_at": tx.now + LIFETIME}
    tx.run("sign_in.insert", id=secret_digest, now=tx.now, **values)


@plain_move
def end(tx: StoreTransaction, secret_digest: str) -> None:
    """Sign out."""
    tx.run("sign_in.delete", id=secret_digest)


def get(tx: StoreTransaction, secret_digest: str) -> SignIn | None:
    """The sign-in of a secret, unless it has expired."""
    row = tx.one("sign_in.get", id=secret_digest)
    found = None if row is None else SignIn.from_row(row)
    return found if found is not None and tx.now < found.expires_at else None


def caller_of(tx: StoreTransaction, identity: str, *, own: str) -> Caller | None:
    """Who an identity is now; None if its token ended, or if it is no login of a principal any more."""
    kind, _, name = identity.partition(":")
    if kind == "token":
        return token.caller_of(tx, name)
    if kind == "os":
        return token.peer(tx, identity, own=own)
    owner = principal.of_identity(tx, identity)
    if owner is None:
        return None
    return Caller(owner.name, identity, frozenset(owner.roles), (EVERYTHING,), owner.uid)
