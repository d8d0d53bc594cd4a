"""A fact: persistent state with a version, an age, and how to verify it.

A scope is a name shared by sessions, such as `customer:42`. A session's private facts have the scope `session:<uid>`,
those of a repository `repository:<digest of its path>`. Standing orders have the scope `orders`, or `orders:<digest>`
for one repository; every agent that works there is told them. A writer names the version that it read, so the second
of two writers learns that it came second.
"""

from __future__ import annotations

from typing import Any, ClassVar

from perdure.domain.record import Record
from perdure.ids import digest

ORDERS = "orders"  # the scope of the standing orders for every agent


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


def repository_scope(repository: str) -> str:
    """The scope of what every session of a repository knows. `repository` is an absolute path."""
    return f"repository:{digest(repository)[:16]}"


def orders_scope(repository: str | None) -> str:
    """The scope of the standing orders for the agents of a repository; without one, for every agent."""
    return ORDERS if repository is None else f"{ORDERS}:{digest(repository)[:16]}"
