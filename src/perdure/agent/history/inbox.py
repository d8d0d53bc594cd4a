"""What an agent reads between two turns, in one read: whether there are new messages, the standing
orders, and the model that a person chose.

Messages that steer are added at once, the others after the model has answered.
"""

from __future__ import annotations

from typing import NamedTuple

from perdure.agent.history.transcript import State
from perdure.domain.fact import Fact
from perdure.domain.inbox import InboxMode
from perdure.store.move import StoreTransaction
from perdure.store.moves import fact, inbox
from perdure.store.moves.session_model import chosen_model


class InboxState(NamedTuple):
    """Whether there are unread messages, the standing orders, and the chosen model (None: the agent's own)."""

    unread: bool
    orders: list[Fact]
    model: str | None


def read_inbox(tx: StoreTransaction, uid: str, mode: InboxMode | None, repository: str | None) -> InboxState:
    unread = bool(inbox.unread(tx, uid, mode=mode, limit=1))
    return InboxState(unread, fact.orders(tx, repository), chosen_model(tx, uid))


def mode_of(state: State) -> InboxMode | None:
    """Which messages may be added now: while the model works, only those that steer."""
    working = state.replies and state.answer() is None and state.stopped() is None
    return InboxMode.STEER if working else None
