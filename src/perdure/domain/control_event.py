"""A control event: one line of the store's control log, and the chain that binds each line to all before it.

    digest = H(body)
    chain  = H(previous chain, number, kind, actor, at, move, digest)

Both can be recomputed from the rows with SHA-256 and a JSON encoder. Nothing in this log is ever erased.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from perdure.domain.record import Record
from perdure.errors import Damaged
from perdure.ids import digest, encode


class ControlEvent(Record, frozen=True):
    """A row of `control_event`: who changed what in the store. `body` is what it is now, with the reason if given."""

    json_columns: ClassVar[frozenset[str]] = frozenset({"body"})

    number: int
    kind: str
    actor: str
    at: int
    move_id: str
    body: Any
    digest: str
    chain: str


def genesis(store_id: str) -> str:
    """The chain before the first control event."""
    return digest(encode(["perdure control", 1, store_id]))


def link(previous: str, number: int, kind: str, actor: str, at: int, move_id: str, digest_: str) -> str:
    """The chain after this control event."""
    return digest(encode([previous, number, kind, actor, at, move_id, digest_]))


def verify(rows: Iterable[tuple[Any, ...]], *, previous: str, after: int = 0) -> str:
    """Check rows of `control_event` as stored, in order; return the chain's end, or say where it breaks."""
    chain, number = previous, after
    for at_number, kind, actor, at, move_id, body, digest_, chained in rows:
        number += 1
        if at_number != number:
            raise Damaged(f"The control log has a gap: expected event {number}, found {at_number}.")
        if digest(body) != digest_:
            raise Damaged(f"The body does not match its digest: control event {number}.")
        chain = link(chain, number, kind, actor, at, move_id, digest_)
        if chain != chained:
            raise Damaged(f"The chain does not continue: control event {number}.")
    return chain
