"""Inbox: messages for a session from any process, received once under the caller's own id, promoted once."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, ClassVar

from perdure.domain.record import Record


class InboxMode(StrEnum):
    QUEUE = "queue"
    STEER = "steer"


class InboxMessage(Record, frozen=True):
    """A row of `inbox`; `promoted_as` is the number of the event it became."""

    json_columns: ClassVar[frozenset[str]] = frozenset({"body"})

    session_uid: str
    id: str
    sequence: int
    mode: str
    body: Any
    sender: str
    received_at: int
    promoted_as: int | None
