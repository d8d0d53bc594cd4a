"""A token of the service: how a principal is authenticated over HTTP.

    prd_ID_SECRET    ID names the row; SECRET is 256 random bits, shown once. Only its digest is stored

The prefix lets scanners find tokens that leaked. A token has the roles of its principal, and only for what its scopes
name (`domain.caller`).
"""

from __future__ import annotations

import base64
import re
from typing import ClassVar

import msgspec

from perdure.domain.record import Record

PREFIX = "prd_"
SECRET_BYTES = 32
_TOKEN = re.compile(r"prd_([0-9a-z]{10})_([A-Za-z0-9_-]{43})")


class Token(Record, frozen=True):
    """A row of `token`."""

    json_columns: ClassVar[frozenset[str]] = frozenset({"scopes"})

    id: str
    digest: str
    principal_uid: str
    label: str
    scopes: list[str]
    created_by: str
    created_at: int
    expires_at: int | None
    rotated_to: str | None
    revoked_at: int | None
    revoked_by: str | None
    used_at: int | None

    @property
    def login(self) -> str:
        """The identity of the client that presents it."""
        return f"token:{self.id}"

    def state(self, now: int) -> str:
        """`active`, `revoked` or `expired`."""
        if self.revoked_at is not None:
            return "revoked"
        return "active" if self.expires_at is None or now < self.expires_at else "expired"


class TokenView(msgspec.Struct, frozen=True):
    """A token as people see it: without its digest."""

    id: str
    principal: str
    label: str
    scopes: list[str]
    state: str
    created_by: str
    created_at: int
    expires_at: int | None
    rotated_to: str | None
    revoked_at: int | None
    revoked_by: str | None
    used_at: int | None
    also_revoked: list[str] = []  # when it was revoked: the ids of its successors that ended with it


class NewToken(msgspec.Struct, frozen=True):
    """A token that was just made, with its secret text, which is shown this once."""

    token: str
    view: TokenView


def token_text(id: str, secret: bytes) -> str:
    """The text of a token, as a client presents it."""
    return f"{PREFIX}{id}_{base64.urlsafe_b64encode(secret).decode().rstrip('=')}"


def token_id(text: str) -> str | None:
    """The id in the text of a token; None if it is not a token at all."""
    match = _TOKEN.fullmatch(text)
    return match[1] if match else None


def view_of(one: Token, principal: str, now: int) -> TokenView:
    """A token for people."""
    given = one.to_dict()
    names = {name: given[name] for name in TokenView.__struct_fields__ if name in given}
    return TokenView(**names, principal=principal, state=one.state(now))
