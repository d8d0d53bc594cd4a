"""What a session has used: tokens and money, added up in its row."""

from __future__ import annotations

from perdure.store.move import Log, holder_move
from perdure.store.moves import session


@holder_move
def use(log: Log, *, tokens_in: int, tokens_out: int, cost_micros: int) -> None:
    """Add what a model call cost to the session's totals."""
    totals = spend(log, tokens_in, tokens_out, cost_micros)
    log.append("note", {"usage": [tokens_in, tokens_out, cost_micros]}, rows={"session": totals})


def spend(log: Log, tokens_in: int, tokens_out: int, cost_micros: int) -> dict[str, int]:
    """Add to the totals of a session's row; the caller's event says so."""
    now = session.get(log.tx, log.uid)
    totals = {
        "tokens_in": now.tokens_in + tokens_in,
        "tokens_out": now.tokens_out + tokens_out,
        "cost_micros": now.cost_micros + cost_micros,
    }
    log.tx.run("session.use", uid=log.uid, **totals)
    return totals
