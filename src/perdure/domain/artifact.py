"""An artifact: a large thing outside the database, named by the digest of its content."""

from __future__ import annotations

from enum import StrEnum

from perdure.domain.record import Record


class Retention(StrEnum):
    KEEP = "keep"
    SESSION = "session"
    SHORT = "short"


class Artifact(Record, frozen=True):
    """A row of `artifact`: one session's claim on some bytes. Equal bytes are stored once."""

    session_uid: str
    digest: str
    kind: str
    size: int
    location: str
    retention: str
    created_at: int
