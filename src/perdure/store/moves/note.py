"""A line of the transcript from outside: nobody has to think about it, and nobody is woken by it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.domain.session import TERMINAL
from perdure.store.move import Log, outsider_move
from perdure.store.moves import message

NEWEST = 1000  # events among which the same note is looked for


@outsider_move
def leave(log: Log, body: Mapping[str, Any], *, key: str) -> int | None:
    """Add the line, once: what it says under `key` is its name. None when the session has ended: its log is closed."""
    for line in reversed(message.between(log.tx, log.uid, max(1, log.cursor - NEWEST))):
        if isinstance(line.body, dict) and line.body.get(key) == body[key]:
            return line.number
    return None if log.head.status in TERMINAL else log.append("message", body)
