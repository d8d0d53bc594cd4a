"""An identity: who acts, as the operating system, the database or the service has authenticated it.

    os:UID     the real user id of the process, on a store of this machine
    db:ROLE    the role that is logged in (`session_user`), on PostgreSQL
    token:ID   a token of the service

A display name, such as that of `--by`, is never an identity. A service that acts for others names them with `acting`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import msgspec

from perdure.errors import ConfigError

KINDS = ("os", "db", "token", "oidc")
_LOGIN = re.compile(r"(os:[0-9]{1,10}|(?:db|token|oidc):[^\x00-\x1f\x7f]{1,250})")

_acting: ContextVar[str | None] = ContextVar("perdure_acting", default=None)


class Identity(msgspec.Struct, frozen=True):
    """Who acts. Written as `kind:name`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> Identity:
        """Read `os:1000`, `db:grace`, `token:ID` or `oidc:SUBJECT`."""
        if _LOGIN.fullmatch(text) is None:
            raise ConfigError(f"{text!r:.80} is not a login.", hint="Write os:UID, db:ROLE, token:ID or oidc:SUBJECT.")
        kind, name = text.split(":", 1)
        return cls(kind, str(int(name)) if kind == "os" else name)


def os_identity() -> str:
    """The identity of this process to the operating system.

    The real user id: a set-user-id program does not change it. Through `sudo` it is the user that sudo switched to.
    """
    return f"os:{os.getuid()}"


def acting_identity() -> str | None:
    """The identity that `acting` has set; None: the process acts for itself."""
    return _acting.get()


@contextmanager
def acting(identity: Identity) -> Iterator[None]:
    """Act for a caller that was authenticated, in this thread or task."""
    before = _acting.set(str(identity))
    try:
        yield
    finally:
        _acting.reset(before)
