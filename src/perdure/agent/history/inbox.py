"""What an agent reads between two turns, in one read: whether there are new messages, and the standing orders.

Messages that steer are added at once, the others after the model has answered.
"""

from __future__ import annotations

from typing import NamedTuple

from perdure.agent.history.transcript import State
from perdure.domain.fact import Fact
from perdure.domain.inbox import InboxMode
from perdure.store.move import StoreTransaction
from perdure.store.moves import fact, inbox


class InboxState(NamedTuple):
    """Whether there are unread messages, and the standing orders."""

    unread: bool
    orders: list[Fact]


def read_inbox(tx: StoreTransaction, uid: str, mode: InboxMode | None, repository: str | None) -> InboxState:
    return InboxState(bool(inbox.unread(tx, uid, mode=mode, limit=1)), fact.orders(tx, repository))


def mode_of(state: State) -> InboxMode | None:
    """Which messages may be added now: while the model works, only those that steer."""
    working = state.replies and state.answer() is None and state.stopped() is None
    return InboxMode.STEER if working else None
