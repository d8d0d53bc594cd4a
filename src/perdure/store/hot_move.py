"""Hot moves: what a holder that knows the end of the log writes without reading first.

    guard     the session's row advances, if the lease and the end of the log are as the holder knows them
    writes    the event and the rows; none of them needs an answer in between

PostgreSQL has guard and writes in one statement, which is a transaction by itself; SQLite runs them one after another.
When the guard does not hold, nothing was written, and the move runs the regular way: it reads first. Whatever an
outsider does, a message or a request to cancel, appends an event, so the end of the log differs and the guard fails.

Several moves of one holder may be built at once, on PostgreSQL in several threads, and each commit replaces the end
that the holder knows. So a hot move reads that end once, and derives number, chain, body and answer from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from perdure.clock import SECOND
from perdure.domain.lease import Holder
from perdure.store.move import HolderMove, Log, Move, OutsiderMove, StoreTransaction, next_event

T = TypeVar("T")
P = ParamSpec("P")


class GuardedWrite(Generic[T]):
    """A hot move, ready to be written: as one statement, or as parts of which the first is the guard."""

    __slots__ = ("answer", "holder", "parts", "statement", "values")

    def __init__(
        self, holder: Holder, statement: str, parts: tuple[str, ...], values: dict[str, Any], answer: T
    ) -> None:
        self.holder = holder
        self.statement = statement
        self.parts = parts
        self.values = values
        self.answer = answer

    def attempt(self, tx: StoreTransaction) -> bool:
        """Write it. False: the guard did not hold, and nothing was written."""
        holder, number, chain, at = self.holder, self.values["number"], self.values["chain"], self.values["at"]
        tx.appended.append((holder.uid, number))
        if not tx.write_guarded(self):
            tx.appended.pop()
            return False
        tx.touched.add(holder.uid)
        tx.after_commit.append(lambda: holder.advance(number, chain, at))
        return True


def guarded_write(
    tx: StoreTransaction,
    holder: Holder,
    head: tuple[int, str],
    statement: str,
    parts: tuple[str, ...],
    kind: str,
    body: Mapping[str, Any],
    answer: T,
    values: Mapping[str, Any],
    *,
    effect_id: str | None = None,
) -> GuardedWrite[T]:
    """The hot move that appends one event after `head`, the end that the holder knew, and writes `values`.

    When the session last moved is written once a second: it is indexed, and the index would cost more than the event.
    """
    cursor, was = head
    line = next_event(holder.uid, cursor, was, kind, holder.name, tx.now, tx.move_id, body, effect_id)
    stale = tx.now - SECOND
    guard = {"epoch": holder.epoch, "nonce": holder.nonce, "cursor": cursor, "was_chain": was, "stale": stale}
    if holder.touched_at <= stale:
        parts = (*parts, "session.touch")
    return GuardedWrite(holder, statement, parts, {**values, **line, **guard}, answer)


class HotHolderMove(HolderMove[P, T]):
    """A holder move that can also be written as a hot move."""

    def __init__(
        self,
        on: Callable[Concatenate[Log, P], T],
        hot: Callable[Concatenate[StoreTransaction, Holder, P], GuardedWrite[T] | None],
    ) -> None:
        super().__init__(on)
        self._hot = hot

    def __call__(self, holder: Holder, /, *args: P.args, **kwargs: P.kwargs) -> Move[T]:
        move = super().__call__(holder, *args, **kwargs)
        move.hot = lambda tx: self._hot(tx, holder, *args, **kwargs)
        return move


class HotOutsiderMove(OutsiderMove[P, T]):
    """An outsider move that can also be written as a hot move, if its caller is the holder."""

    def __init__(
        self,
        on: Callable[Concatenate[Log, P], T],
        hot: Callable[Concatenate[StoreTransaction, P], GuardedWrite[T] | None],
    ) -> None:
        super().__init__(on)
        self._hot = hot

    def __call__(self, uid: str, /, by: str, *args: P.args, **kwargs: P.kwargs) -> Move[T]:
        move = super().__call__(uid, by, *args, **kwargs)
        move.hot = lambda tx: self._hot(tx, *args, **kwargs)
        return move


def hot_holder_move(
    hot: Callable[Concatenate[StoreTransaction, Holder, P], GuardedWrite[T] | None],
) -> Callable[[Callable[Concatenate[Log, P], T]], HotHolderMove[P, T]]:
    """A holder move that `hot` writes without reading first; None where that is not possible."""
    return lambda on: HotHolderMove(on, hot)


def hot_outsider_move(
    hot: Callable[Concatenate[StoreTransaction, P], GuardedWrite[T] | None],
) -> Callable[[Callable[Concatenate[Log, P], T]], HotOutsiderMove[P, T]]:
    """An outsider move that `hot` writes without reading first; None where that is not possible."""
    return lambda on: HotOutsiderMove(on, hot)


def write(tx: StoreTransaction, move: Move[T]) -> T:
    """Write a move in an open transaction: as a hot move if its guard holds, else the regular way."""
    if move.hot is not None and (ready := move.hot(tx)) is not None and ready.attempt(tx):
        return ready.answer
    return move.run(tx)
