"""What an agent hears between two turns, in one read: whether somebody sent something, and the standing orders.

Messages that steer join at once, the others when the model has answered.
"""

from __future__ import annotations

from typing import NamedTuple

from perdure.agent.history.transcript import State
from perdure.domain.fact import Fact
from perdure.domain.inbox import Mode
from perdure.store.move import Transaction
from perdure.store.moves import fact, inbox

ORDERS = "orders"  # the scope of the standing orders


class Heard(NamedTuple):
    """What there was to hear at one moment."""

    unread: bool
    orders: list[Fact]


def hear(tx: Transaction, uid: str, mode: Mode | None) -> Heard:
    return Heard(bool(inbox.unread(tx, uid, mode=mode, limit=1)), fact.known(tx, ORDERS))


def mode_of(state: State) -> Mode | None:
    """Which messages may join now: while the model works, only those that steer."""
    working = state.replies and state.answer() is None and state.stopped() is None
    return Mode.STEER if working else None
