"""Sealed sessions: they can be read here, but not changed.

A sealed session was moved to another store, or was imported as the history of a copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.clock import format_time
from perdure.domain.event import Event
from perdure.errors import IllegalMove

if TYPE_CHECKING:
    from perdure.store.move import StoreTransaction


def refusal(tx: StoreTransaction, uid: str, id: str, sealed_at: int) -> IllegalMove:
    """The error for a move of a sealed session: why it is sealed, since when, and where it can continue."""
    (last,) = (Event.from_row(row) for row in tx.all("event.last", uid=uid, through=2**62, limit=1))
    if last.kind == "session.sealed":
        return IllegalMove(
            f"Session {id} is sealed here: it was moved to another store on {format_time(sealed_at)}.",
            hint="Continue in the store that imported its bundle; if none did, run `perdure import FILE --take-back`.",
        )
    return IllegalMove(
        f"Session {id} is sealed here: it was imported as the history of a copy.",
        hint=f"Continue the copy, or a branch of this session: `perdure fork {id}`.",
    )
