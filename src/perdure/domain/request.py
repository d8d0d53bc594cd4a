"""A request of a client that was carried out under its idempotency key."""

from __future__ import annotations

from typing import Any, ClassVar

from perdure.domain.record import Record

BEGUN = "begun"  # some of its moves are committed
DONE = "done"


class CarriedOut(Record, frozen=True):
    """A row of `request`."""

    json_columns: ClassVar[frozenset[str]] = frozenset({"ids"})

    caller: str
    idempotency_key: str
    operation: str
    digest: str
    ids: Any
    state: str
    move_id: str
    at: int
    holder: str | None = None  # the service process that carries it out, while it is begun
    held_until: int | None = None  # until then no other process does
