"""An event: one line of a session's log, and the chain that binds each line to all before it.

    digest = H(salt, body)                        what was said; salted, so that it does not give a guess away
    chain  = H(previous chain, number, kind, actor, at, effect, move, digest)

The chain covers the digest and not the body: a body can be erased, and the chain still verifies.
Numbers run from 1 without gaps. Both can be recomputed from the rows with SHA-256 and a JSON encoder.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from perdure.domain.record import Record
from perdure.errors import Damaged
from perdure.ids import digest, encode

SALT = 32  # characters; a fixed length, so that nothing can be moved between salt and body under one digest


class Event(Record, frozen=True):
    """A row of `event`. An erased one has neither body nor salt."""

    json_columns: ClassVar[frozenset[str]] = frozenset({"body"})

    session_uid: str
    number: int
    kind: str
    actor: str
    at: int
    effect_id: str | None
    move_id: str
    body: Any
    salt: str | None
    digest: str
    chain: str


def genesis(session_uid: str) -> str:
    """The chain before the first event."""
    return digest(encode(["perdure", 1, session_uid]))


def body_digest(salt: str, body: str) -> str:
    return digest(salt + body)


def link(
    previous: str, number: int, kind: str, actor: str, at: int, effect_id: str | None, move_id: str, digest_: str
) -> str:
    """The chain after this event."""
    return digest(encode([previous, number, kind, actor, at, effect_id, move_id, digest_]))


def verify(session_uid: str, rows: Iterable[tuple[Any, ...]], *, previous: str | None = None, after: int = 0) -> str:
    """Check rows of `event` as stored, in order; return the chain's end, or say where it breaks."""
    chain = previous if previous is not None else genesis(session_uid)
    number = after
    for uid, at_number, kind, actor, at, effect_id, move_id, body, salt, digest_, chained in rows:
        number += 1
        where = f"session {session_uid}, event {number}"
        if uid != session_uid or at_number != number:
            raise Damaged(f"The log has a gap: expected {where}, found {at_number}.")
        if (body is None) != (salt is None) or (salt is not None and len(salt) != SALT):
            raise Damaged(f"The body and its salt do not belong together: {where}.")
        if body is not None and body_digest(salt, body) != digest_:
            raise Damaged(f"The body does not match its digest: {where}.")
        chain = link(chain, number, kind, actor, at, effect_id, move_id, digest_)
        if chain != chained:
            raise Damaged(f"The chain does not continue: {where}.")
    return chain
