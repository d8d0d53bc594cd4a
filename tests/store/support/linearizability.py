"""Whether a history of lease operations, seen from outside, could have happened one after another.

Wing and Gong's question: is there an order of all operations, in which each takes effect at one moment between its call
and its return, that a single session could have gone through? In general that needs a search. Here it does not:

- An operation that succeeded and changed something appended exactly one event and knows its number, so the order of
  those is given. All that remains is whether it agrees with real time and with the rules.
- An operation that changed nothing (a refusal, a renewal) may be placed at the first moment that makes its answer true:
  the state stays the same, and one operation less is in the way of others. Placing it later could only do harm.

So one pass decides exactly, without going back. An operation may be placed only while no unplaced one returned before
it was called; if nothing can be placed and something is left, there is no such order.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Kind(StrEnum):
    ACQUIRE = "acquire"
    APPEND = "append"
    RENEW = "renew"
    RELEASE = "release"


class Operation(msgspec.Struct, frozen=True):
    """An operation of one process: when it was called, when it returned, and its answer.

    `epoch` is what an acquisition got, or what the others showed; `number` is that of the event it appended. A refusal
    has no number, and a refused acquisition no epoch.
    """

    who: str
    kind: Kind
    epoch: int | None
    number: int | None
    called: int
    returned: int
    refused: bool = False


class State(msgspec.Struct, frozen=True):
    """One session, as far as leases go."""

    cursor: int
    epoch: int = 0
    held: bool = False


def step(state: State, operation: Operation) -> State | None:
    """The state after this operation, or None if its answer would be false now."""
    holds = state.held and operation.epoch == state.epoch
    if operation.refused:
        false = state.held if operation.kind is Kind.ACQUIRE else not holds
        return state if false else None
    if operation.kind is Kind.RENEW:
        return state if holds else None
    if operation.number != state.cursor + 1:
        return None
    if operation.kind is Kind.ACQUIRE:  # the lease was free or had expired
        return State(operation.number, state.epoch + 1, True) if operation.epoch == state.epoch + 1 else None
    return State(operation.number, state.epoch, operation.kind is Kind.APPEND) if holds else None


def unplaceable(history: list[Operation], start: State) -> list[Operation]:
    """The operations that cannot be ordered; none, if the history is linearizable."""
    left, state = sorted(history, key=lambda operation: operation.called), start
    while left:
        horizon = min(operation.returned for operation in left)
        candidates = [operation for operation in left if operation.called <= horizon]
        placed = [operation for operation in candidates if step(state, operation) == state]
        if not placed:
            placed = [operation for operation in candidates if step(state, operation) is not None][:1]
        if not placed:
            return left
        for operation in placed:
            state = step(state, operation) or state
            left.remove(operation)
    return []
