"""A checkpoint: how to start again quickly. It may be deleted at any time with no loss but time."""

from __future__ import annotations

from perdure.domain.record import Record


class Checkpoint(Record, frozen=True):
    """A row of `checkpoint`: the state after event `number`, valid for one fingerprint."""

    session_uid: str
    number: int
    codec: str
    fingerprint: str
    body: str
    created_at: int
