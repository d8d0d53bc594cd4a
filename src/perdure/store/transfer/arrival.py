"""What an import brings into a store, and what it returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from perdure.domain.principal import Role
from perdure.domain.session import SessionRecord
from perdure.errors import IllegalMove
from perdure.store.move import StoreTransaction
from perdure.store.moves import principal
from perdure.store.transfer.session_export import StoredSession


class SessionImport(msgspec.Struct, frozen=True, kw_only=True):
    """The lineage to import, oldest first. With `copy_uid` all of it is history, and a branch begins at its end."""

    line: list[StoredSession]
    source: str
    copy_uid: str | None = None
    exported_at: int | None = None  # when the copy's uid was made: it may have run here before a restore lost it
    id: str | None = None
    take_back: bool = False
    reduced: Mapping[str, Any] = {}  # decoded columns of the last session, without the permissions that were dropped
    keep_approvals: bool = False
    place: Mapping[str, Any] = {}  # the repository of the folder here, and the policy that is committed there
    keeps_owner: bool = False  # else who imports owns the session
    signed_by: Mapping[str, str | None] = {}  # the key that signed the bundle, and the name by which it was known

    @property
    def origin(self) -> dict[str, Any]:
        """The origin, as the log records it."""
        return {"from": self.source} | ({"signed_by": self.signed_by} if self.signed_by else {})

    @property
    def policy(self) -> dict[str, Any]:
        """The policy of the folder here, as the log records it."""
        found = self.place.get("repository_policy")
        return {"repository_policy": found} if found else {}

    @property
    def repository_id(self) -> str | None:
        found = self.place.get("repository_id")
        return None if found is None else str(found)

    def owner_of(self, tx: StoreTransaction, stored: StoredSession, by: str) -> str | None:
        """Who owns a session here: the principal who imports it, or the name that is given in a store without any."""
        if self.keeps_owner:
            owner: str | None = stored.session["owner"]
            return owner
        me = principal.of_identity(tx, tx.identity)
        return by if me is None else me.name


class ImportResult(msgspec.Struct, frozen=True):
    """The session that continues here, and whether anything changed."""

    session: SessionRecord
    changed: bool
    voided: tuple[str, ...] = ()  # approvals whose votes do not count here


def check_may_keep_owner(tx: StoreTransaction, request: SessionImport) -> None:
    """Rules, budgets and exemptions look at the owner: in a store with principals, an owner may say who it is."""
    if not request.keeps_owner:
        return
    me = principal.of_identity(tx, tx.identity)
    if principal.is_governed(tx) and (me is None or Role.OWNER not in me.roles):
        raise IllegalMove(
            "Only an owner of the store may keep the owner of a bundle.",
            hint="Without --keep-owner you own the session.",
            session=request.line[-1].uid,
        )
