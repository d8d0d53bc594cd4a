"""A session that is sealed: everybody may look at it, and nobody can move it here.

It was moved away, or it came along as the history of a copy. Either way it goes on elsewhere, if it goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.clock import format_time
from perdure.domain.event import Event
from perdure.errors import IllegalMove

if TYPE_CHECKING:
    from perdure.store.move import StoreTransaction


def refusal(tx: StoreTransaction, uid: str, id: str, sealed_at: int) -> IllegalMove:
    """Why nobody can move it here, since when, and where it can be moved."""
    (last,) = (Event.from_row(row) for row in tx.all("event.last", uid=uid, through=2**62, limit=1))
    if last.kind == "session.sealed":
        return IllegalMove(
            f"Session {id} is sealed here: it was moved away on {format_time(sealed_at)} and goes on elsewhere.",
            hint="Go on where its bundle was imported; if nowhere, `perdure import FILE --take-back` undoes it.",
        )
    return IllegalMove(
        f"Session {id} is sealed here: it came as the history of a copy, and goes on elsewhere.",
        hint=f"Go on with the copy, or with a branch of it: `perdure fork {id}`.",
    )
