"""Reads of failed sessions that are not retried any more and not archived: a person decides about them.

A failed child is none: its failure was its parent's to handle.
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.domain.session import SessionRecord
from perdure.ids import check_text
from perdure.store.move import StoreTransaction

PAGE = 500


class FailedSessionFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which failed sessions are meant. `error` is the code of the error that ended the session, or its type."""

    queue: str | None = None
    program: str | None = None
    owner: str | None = None
    error: str | None = None
    since: int = 0  # in microseconds since 1970

    def matches(self, error: Any) -> bool:
        found = error if isinstance(error, dict) else {}
        return self.error is None or self.error in (found.get("code"), found.get("type"))


def page(tx: StoreTransaction, wanted: FailedSessionFilter, after: str) -> tuple[list[SessionRecord], str | None]:
    """The next failed sessions after a uid, and the uid to continue after; None: these were the last."""
    for text in (wanted.queue, wanted.program, wanted.owner, wanted.error):
        check_text("The filter", text or "")
    rows = tx.all(
        "session.failed",
        queue=wanted.queue, program=wanted.program, owner=wanted.owner, since=wanted.since, after=after, limit=PAGE,
    )  # fmt: skip
    found = [SessionRecord.from_row(row) for row in rows]
    return [one for one in found if wanted.matches(one.error)], found[-1].uid if len(found) == PAGE else None
