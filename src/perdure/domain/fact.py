"""A fact: persistent state with a version, an age, and how to verify it.

A scope is a name shared by sessions (`orders`, `repository:api`, `customer:42`); a session's private facts live in
the scope `session:<uid>`. Writers name the version they read: the second of two learns that it came second.
"""

from __future__ import annotations

from typing import Any, ClassVar

from perdure.domain.record import Record


class Fact(Record, frozen=True):
    """A row of `fact`. `stale_after` is the age, in microseconds, beyond which it must be verified before use."""

    json_columns: ClassVar[frozenset[str]] = frozenset({"value"})

    scope: str
    key: str
    value: Any
    version: int
    verify: str | None
    session_uid: str | None
    updated_by: str
    updated_at: int
    verified_at: int
    stale_after: int | None

    def is_stale(self, now: int) -> bool:
        return self.stale_after is not None and now - self.verified_at > self.stale_after


def private_scope(session_uid: str) -> str:
    return f"session:{session_uid}"
