"""The start of sessions by people, programs and schedules, under the rules of their queue.

    known id     the session of that id is returned, whatever the queue allows now
    debounce     a session of the queue, program and key that waits for its time gets the new arguments, and is returned
    keep         a session of the queue and key that has not ended is returned, unless it is being cancelled
    replace      such sessions are asked to stop, and the new one is created
    otherwise    the new one is created, unless the queue is closed or full

All of it is one transaction. It locks the row of the queue where two starts must not decide at the same time, and then
the rows of sessions. Children and branches are created with `session.create`: a queue refuses only what is new.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure.domain.queue import Queue
from perdure.domain.record import same_json
from perdure.domain.session import TERMINAL, SessionRecord, Status
from perdure.domain.wait import Wait
from perdure.errors import QueueClosed, QueueFull
from perdure.ids import encode
from perdure.store.move import Move, StoreTransaction, enter
from perdure.store.moves import artifact, queue, session, session_end
from perdure.store.moves.session import DEBOUNCE, START, NewSession

MANY = 1000
KEEP, REPLACE = "keep", "replace"


class Started(msgspec.Struct, frozen=True):
    """The session that a request got, and the uids of those that were asked to stop for it."""

    session: SessionRecord
    replaced: tuple[str, ...] = ()


class _Start:
    """One transaction that starts sessions."""

    def __init__(self, tx: StoreTransaction, by: str, debounce: bool, on_conflict: str) -> None:
        self._tx = tx
        self._by = by
        self._debounce = debounce
        self._on_conflict = on_conflict
        self._exclusive = debounce or on_conflict in (KEEP, REPLACE)
        self._room: dict[str, int] = {}  # how many more sessions may become ready in a queue

    def start(self, new: NewSession, creation: Move[SessionRecord]) -> Started:
        rules = self._rules(new.queue)
        if (self._exclusive or rules is not None) and (row := self._tx.one("session.get_by_id", id=new.id)) is not None:
            return Started(self._known(SessionRecord.from_row(row), new) or creation.run(self._tx))
        found = self._with_key(new) if self._exclusive else []
        for one in found if self._debounce else ():
            if (changed := self._join(one, new)) is not None:
                return Started(changed)
        if self._on_conflict == KEEP and (kept := [one for one in found if one.cancel_requested_at is None]):
            return Started(kept[0])
        if rules is not None:
            self._take_room(rules, is_ready=new.not_before is None)
        replaced = tuple(one.uid for one in found if self._on_conflict == REPLACE and self._cancel(one.uid))
        return Started(creation.run(self._tx), replaced)

    def _rules(self, name: str) -> Queue | None:
        rules = None if self._exclusive else queue.get(self._tx, name)
        if self._exclusive or (rules is not None and rules.max_depth is not None):
            return queue.lock(self._tx, name, self._by)
        return rules

    def _known(self, there: SessionRecord, new: NewSession) -> SessionRecord | None:
        """A request with debounce that is repeated: later requests may have changed the arguments of its session."""
        same = (there.program, there.concurrency_key) == (new.program, new.concurrency_key)
        return there if self._debounce and same and there.removed_at is None else None

    def _with_key(self, new: NewSession) -> list[SessionRecord]:
        rows = self._tx.all("session.by_key", queue=new.queue, key=new.concurrency_key, limit=MANY)
        return [SessionRecord.from_row(row) for row in rows]

    def _join(self, there: SessionRecord, new: NewSession) -> SessionRecord | None:
        """Give a session that waits for the end of its debounce time the newest arguments; None: it does not.

        Its row is locked first, so it cannot begin meanwhile.
        """
        if there.program != new.program or there.status != Status.WAITING or there.cancel_requested_at is not None:
            return None
        log = enter(self._tx, there.uid, self._by)
        row = self._tx.one("wait.get", uid=there.uid, id=START)
        asked = None if row is None else Wait.from_row(row)
        if asked is None or asked.resolved_at is not None or asked.detail != DEBOUNCE or self._is_due(asked):
            return None
        if not same_json(there.arguments, new.arguments):
            for one in new.claims:
                artifact.claim(log, one)
            version = log.head.version + 1
            self._tx.run("session.set_arguments", uid=log.uid, arguments=encode(new.arguments), version=version)
            log.append("session.described", rows={"session": {"arguments": new.arguments, "version": version}})
        log.close()
        return session.get(self._tx, there.uid)

    def _is_due(self, asked: Wait) -> bool:
        return (asked.due_at or 0) <= self._tx.now

    def _cancel(self, uid: str) -> bool:
        """Ask a session to stop; False if it has ended meanwhile."""
        log = enter(self._tx, uid, self._by)
        if log.head.status in TERMINAL:
            return False
        session_end.cancel.on(log)
        log.close()
        return True

    def _take_room(self, rules: Queue, *, is_ready: bool) -> None:
        """Refuse a new session if its queue is closed or full."""
        if rules.closed_at is not None:
            raise QueueClosed(
                f"The queue {rules.name} is closed; nothing was started.",
                hint=f"Choose another queue, or open it: `perdure queues set {rules.name} --open`.",
                queue=rules.name,
            )
        if rules.max_depth is None:
            return
        if rules.name not in self._room:
            self._room[rules.name] = rules.max_depth - queue.depth(self._tx, rules.name, rules.max_depth)
        if self._room[rules.name] <= 0:
            said = f"The queue {rules.name} has its limit of {rules.max_depth} ready sessions; nothing was started."
            raise QueueFull(said, queue=rules.name)
        self._room[rules.name] -= is_ready


def start(
    new: Sequence[NewSession], *, by: str, debounce: bool = False, on_conflict: str = "queue"
) -> Move[list[Started]]:
    """Start sessions in one transaction: all of them, or with an error none."""
    creations = [(one, session.create(one, by=by)) for one in new]

    def run(tx: StoreTransaction) -> list[Started]:
        starting = _Start(tx, by, debounce, on_conflict)
        return [starting.start(one, creation) for one, creation in creations]

    return Move("session_start.start", "outsider", run)
