"""Moves: the unit of writing. A move is one transaction, written whole or not at all.

There are three kinds, declared where a move is defined:
    @holder_move    made by the lease's holder; refused when its epoch is no longer current
    @outsider_move  needs no lease, runs under the session's row lock: an answer, a vote, a message
    @plain_move     writes to no session's log: a worker's heartbeat, a checkpoint, a named lease

Order of writes in a session move: lock the session's row, read, change rows, append events, advance cursor and chain.
The lock comes first, so two moves of one session never see the same cursor.

Every move has an id, written into its events. When a commit's outcome is unknown the store searches for that id: found
means committed, with the result it already computed; not found means it runs again. A move that appended no event
leaves nothing to search for, so it must be safe to run twice; the tests run it twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar

import msgspec

from perdure.clock import format_time
from perdure.domain import event as event_domain
from perdure.domain.identity import acting_identity
from perdure.domain.lease import Holder
from perdure.errors import Conflict, LeaseLost, NotFound
from perdure.ids import check_text, encode, new_uid, salt
from perdure.store.invocation import Invocation
from perdure.store.topics import ALL_QUEUES, queue_topic
from perdure.store.transfer.seal import refusal

if TYPE_CHECKING:
    from perdure.store.hot_move import GuardedWrite

T = TypeVar("T")
P = ParamSpec("P")
Row = tuple[Any, ...]


class StoreTransaction(ABC):
    """An open transaction that a move writes to: named statements, and the time."""

    now: int
    boot: int = 0  # the same time on this machine's boot clock; 0 where it was not read
    move_id: str
    restore_epoch: int
    identity: str = ""  # who makes the move, as the operating system, the database or the service has authenticated it

    def __init__(self, now: int, move_id: str, restore_epoch: int) -> None:
        self.now = now
        self.move_id = move_id
        self.restore_epoch = restore_epoch
        self.intact = 0  # the restore epoch up to which everything that this process acknowledged was found
        self.keep_lease: Callable[[Log, Holder], bool] = lambda _log, _holder: False  # after a failover (`failover`)
        self.switched_at = 0  # when this process saw another server take over, on the boot clock
        self.appended: list[tuple[str, int]] = []
        self.after_commit: list[Callable[[], None]] = []
        self.touched: set[str] = set()
        self.topics: set[str] = set()  # whom the commit wakes besides readers of the sessions (`writer.wakeup`)
        self.wrote = False
        self.rolled_back: Exception | None = None  # the error of a user's statement that undid the whole transaction

    def wake(self, queue: str) -> None:
        """The commit wakes workers that wait for sessions of a queue."""
        self.topics |= {ALL_QUEUES, queue_topic(queue)}

    def wake_service(self, topic: str) -> None:
        """The commit wakes a service, by its topic: what it waits for has changed."""
        self.topics.add(topic)

    @abstractmethod
    def run(self, name: str, /, **values: Any) -> int:
        """Run a named statement; return how many rows it changed."""

    @abstractmethod
    def send(self, name: str, /, **values: Any) -> None:
        """Run a named statement whose row count is not needed; it shares a round trip with the next one."""

    def write_guarded(self, hot: GuardedWrite[Any]) -> bool:
        """Write a hot move, by its one statement or by its parts. False: its guard does not hold."""
        raise NotImplementedError

    def exclude_dispatches(self, patience: int) -> None:  # noqa: B027 - a database with one writer has nothing to do
        """Keep dispatches out until the transaction ends; wait for those under way, for so many milliseconds."""

    @abstractmethod
    def execute(self, sql: str, parameters: Sequence[Any]) -> list[Row]:
        """Run a user's own statement, with `?` for its parameters: an effect on the same database.

        An error of the statement itself is a `Conflict` or a `ConfigError`; any other error is the database's.
        """

    @abstractmethod
    def one(self, name: str, /, **values: Any) -> Row | None:
        """The first row of a named query."""

    @abstractmethod
    def all(self, name: str, /, **values: Any) -> list[Row]:
        """All rows of a named query."""

    def ask_ahead(self, name: str, **values: Any) -> None:  # noqa: B027 - here a query costs no round trip
        """This read will make this query, once; it may share the round trip of the next one."""

    def all_of(self, *names: str, **values: Any) -> list[list[Row]]:
        """All rows of several queries, each with its part of the values; they may share a round trip."""
        return [self.all(name, **values) for name in names]


class Move(Generic[T]):
    """One move, ready to be written. `hot` writes it without reading first; an `urgent` one never waits for a lock.

    `invocation` is the call that made it; None for a move whose body is a function of its caller.
    """

    __slots__ = ("hot", "id", "identity", "invocation", "kind", "name", "run", "urgent")

    def __init__(
        self,
        name: str,
        kind: str,
        run: Callable[[StoreTransaction], T],
        hot: Callable[[StoreTransaction], GuardedWrite[T] | None] | None = None,
        *,
        urgent: bool = False,
    ) -> None:
        self.id = new_uid()
        self.identity = acting_identity()  # None: that of the process
        self.name, self.kind, self.run = name, kind, run
        self.hot, self.urgent = hot, urgent
        self.invocation: Invocation | None = None

    def made_by(self, factory: Callable[..., Any], *args: Any, **kwargs: Any) -> Self:
        """The same move, with the call that made it."""
        self.invocation = Invocation(factory, args, kwargs)
        return self


class SessionHead(msgspec.Struct, frozen=True):
    """The part of a session's row that every move needs."""

    uid: str
    id: str
    status: str
    cursor: int
    chain: str
    lease_holder: str | None
    lease_nonce: str | None
    lease_epoch: int
    lease_until: int | None
    restart_number: int
    cancel_requested_at: int | None
    pause_requested_at: int | None
    interrupt_requested_at: int | None
    sealed_at: int | None
    version: int
    removed_at: int | None = None
    queue: str = "default"


class Log:
    """One session's log, open for one move, its row locked."""

    __slots__ = ("actor", "chain", "cursor", "head", "holder", "identity", "tx", "uid")

    def __init__(self, tx: StoreTransaction, head: SessionHead, actor: str, holder: Holder | None = None) -> None:
        self.tx = tx
        self.uid = head.uid
        self.head = head
        self.actor = actor
        self.holder = holder
        self.identity = tx.identity if holder is None else ""  # a holder is known by its lease
        self.cursor = head.cursor
        self.chain = head.chain

    def append(
        self,
        kind: str,
        body: Mapping[str, Any] | None = None,
        *,
        rows: Mapping[str, Any] | None = None,
        actor: str | None = None,
        effect_id: str | None = None,
    ) -> int:
        """Append one event and return its number. `rows` are the columns this move changed, for time travel."""
        content = dict(body) if body else {}
        if self.identity:
            content["identity"] = self.identity
        if rows:
            content["rows"] = rows
        tx, by = self.tx, actor or self.actor
        line = next_event(self.uid, self.cursor, self.chain, kind, by, tx.now, tx.move_id, content, effect_id)
        self.tx.send("event.insert", **line)
        self.cursor, self.chain = line["number"], line["chain"]
        return self.cursor

    def close(self) -> None:
        """Move the session's row to the new end of its log."""
        if self.cursor == self.head.cursor:
            return
        self.tx.send("session.advance", uid=self.uid, cursor=self.cursor, chain=self.chain, now=self.tx.now)
        self.tx.appended.append((self.uid, self.cursor))
        self.tx.touched.add(self.uid)
        if self.holder is not None:
            holder, cursor, chain = self.holder, self.cursor, self.chain
            self.tx.after_commit.append(lambda: holder.advance(cursor, chain))


def next_event(
    uid: str,
    cursor: int,
    chain: str,
    kind: str,
    actor: str,
    at: int,
    move_id: str,
    content: Mapping[str, Any],
    effect_id: str | None = None,
) -> dict[str, Any]:
    """The row that continues a log after `cursor`."""
    body, grain = encode(content), salt()
    digest = event_domain.body_digest(grain, body)
    return {
        "session_uid": uid,
        "number": cursor + 1,
        "kind": kind,
        "actor": actor,
        "at": at,
        "effect_id": effect_id,
        "move_id": move_id,
        "body": body,
        "salt": grain,
        "digest": digest,
        "chain": event_domain.link(chain, cursor + 1, kind, actor, at, effect_id, move_id, digest),
    }


def read_head(tx: StoreTransaction, uid: str) -> SessionHead:
    row = tx.one("session.lock_head", uid=uid)
    if row is None:
        raise NotFound(f"There is no session {uid}.")
    return SessionHead(*row)


def hold(tx: StoreTransaction, holder: Holder) -> Log:
    """Open the log for its holder. A stale epoch is refused here."""
    head = read_head(tx, holder.uid)
    log = Log(tx, head, holder.name, holder)
    if head.lease_epoch != holder.epoch or head.lease_nonce != holder.nonce:
        if not tx.keep_lease(log, holder):
            now = f"{head.lease_holder} holds it now" if head.lease_holder else f"it is {head.status} now"
            raise LeaseLost(f"{holder.name} no longer holds session {head.id} (epoch {holder.epoch}); {now}.")
    note_requests(holder, head)
    return log


def note_requests(holder: Holder, head: SessionHead) -> None:
    holder.cancel_requested = head.cancel_requested_at is not None
    holder.pause_requested = head.pause_requested_at is not None
    holder.interrupt_requested = head.interrupt_requested_at is not None


def enter(tx: StoreTransaction, uid: str, actor: str) -> Log:
    """Open the log for an outsider."""
    head = read_head(tx, uid)
    check_text("Who makes the move", actor)
    if head.removed_at is not None:
        raise NotFound(f"Session {head.id} was removed on {format_time(head.removed_at)}.")
    if head.sealed_at is not None:
        raise refusal(tx, uid, head.id, head.sealed_at)
    return Log(tx, head, actor)


class HolderMove(Generic[P, T]):
    """A holder move: call it with the holder to make the move; `on` is its body, for moves that include it."""

    def __init__(self, on: Callable[Concatenate[Log, P], T]) -> None:
        self.on = on
        self.name = _name(on)
        self.__doc__ = on.__doc__

    def __call__(self, holder: Holder, /, *args: P.args, **kwargs: P.kwargs) -> Move[T]:
        def run(tx: StoreTransaction) -> T:
            log = hold(tx, holder)
            result = self.on(log, *args, **kwargs)
            log.close()
            return result

        return Move(self.name, "holder", run).made_by(self, holder, *args, **kwargs)


class OutsiderMove(Generic[P, T]):
    """An outsider move: call it with the session's uid and who makes it."""

    def __init__(self, on: Callable[Concatenate[Log, P], T]) -> None:
        self.on = on
        self.name = _name(on)
        self.__doc__ = on.__doc__

    def __call__(self, uid: str, /, by: str, *args: P.args, **kwargs: P.kwargs) -> Move[T]:
        def run(tx: StoreTransaction) -> T:
            log = enter(tx, uid, by)
            result = self.on(log, *args, **kwargs)
            log.close()
            return result

        return Move(self.name, "outsider", run).made_by(self, uid, by, *args, **kwargs)


def holder_move(on: Callable[Concatenate[Log, P], T]) -> HolderMove[P, T]:
    """Only the lease's holder may make this move."""
    return HolderMove(on)


def outsider_move(on: Callable[Concatenate[Log, P], T]) -> OutsiderMove[P, T]:
    """This move needs no lease."""
    return OutsiderMove(on)


def plain_move(on: Callable[Concatenate[StoreTransaction, P], T]) -> Callable[P, Move[T]]:
    """A move outside every session's log. It must be safe to run twice."""
    name = _name(on)

    def make(*args: P.args, **kwargs: P.kwargs) -> Move[T]:
        return Move(name, "plain", lambda tx: on(tx, *args, **kwargs)).made_by(make, *args, **kwargs)

    make.__doc__ = on.__doc__
    make.on = on  # type: ignore[attr-defined]  # its signature
    return make


def _name(on: Callable[..., Any]) -> str:
    return f"{on.__module__.rsplit('.', 1)[-1]}.{on.__name__}"


def expect_one(changed: int, message: str) -> None:
    """Check that a guarded statement changed its one row; otherwise the row has changed since it was read."""
    if changed != 1:
        raise Conflict(message)
