"""A decision: what was chosen and why, written before it is acted on; its outcome after."""

from __future__ import annotations

from perdure.domain.record import Record


class Decision(Record, frozen=True):
    """A row of `decision`. Without an outcome it is incomplete."""

    session_uid: str
    id: str
    decision: str
    rationale: str
    planned_action: str | None
    outcome: str | None
    decided_at: int
    settled_at: int | None
