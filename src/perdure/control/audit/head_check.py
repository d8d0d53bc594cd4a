"""Whether a store still has what a head says: every session of it, with every event up to the one it names.

    deleted      the session has no row; a removed session keeps its row and its log
    truncated    its log ends before the event that the head names
    gap          an event is missing, and later ones are there
    reordered    events have changed places
    edited       an event is not what its digest or the chain says
    rewritten    the log is consistent in itself, and is not the one of the head
    erased       an event was erased, and no event or removal says so
    unreadable   rows that cannot be read

The same for the control log, from which nothing is ever erased. Events after the head are checked as well, as far as
the log can vouch for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from perdure.control.audit.head import AuditHead
from perdure.domain import control_event
from perdure.domain import event as events
from perdure.errors import ConfigError, Damaged
from perdure.ids import decode, digest
from perdure.interchange.signing_keys import Signer, signer_of
from perdure.store.move import Row, StoreTransaction
from perdure.store.moves import control_log, meta

PAGE = 1000
CONTROL = "control log"
NEAR = 200  # events after a break that are searched for the one which belongs there


class HeadFinding(msgspec.Struct, frozen=True):
    """What is wrong with one log. `uid` is empty for the control log."""

    uid: str
    session: str
    problem: str
    detail: str

    def __str__(self) -> str:
        return f"{self.session}: {self.problem}: {self.detail}"


class HeadReport(msgspec.Struct, kw_only=True):
    """What was compared, and what is wrong. `later` are sessions that began after the head was taken."""

    taken_at: int
    signer: Signer
    sessions: int = 0
    later: int = 0
    events: int = 0
    findings: list[HeadFinding] = msgspec.field(default_factory=list)


class _Broken(Exception):
    def __init__(self, problem: str, detail: str) -> None:
        self.problem, self.detail = problem, detail


def compare(tx: StoreTransaction, head: AuditHead, progress: Callable[[int], None] = lambda _: None) -> HeadReport:
    """Compare a store with a head of it."""
    if (own := meta.get(tx, "store_id")) != head.store:
        raise ConfigError("The head is of another store.", hint=f"It is of the store {head.store}, and this is {own}.")
    done = HeadReport(taken_at=head.taken_at, signer=signer_of(head.signature))
    done.findings += _check(tx, "", CONTROL, head.control)
    for uid, number, chain in head.ends():
        row = tx.one("audit.session_end", uid=uid)
        if row is None:
            done.findings.append(HeadFinding(uid, uid, "deleted", f"it had {number} events when the head was taken"))
        else:
            done.findings += _check(tx, uid, str(row[0]), (number, chain), end=(row[1], row[2]))
            done.events += row[1]
        done.sessions += 1
        progress(done.sessions)
    done.later = sum(1 for _ in _uids(tx)) - done.sessions + sum(one.problem == "deleted" for one in done.findings)
    return done


def _uids(tx: StoreTransaction) -> Iterator[str]:
    after = ""
    while page := tx.all("audit.session_ends", after=after, limit=PAGE):
        yield from (row[0] for row in page)
        after = page[-1][0]


def _check(
    tx: StoreTransaction, uid: str, name: str, wanted: tuple[int, str], end: tuple[int, str] | None = None
) -> list[HeadFinding]:
    """What is wrong with one log; the first break is named, because nothing after it can be trusted."""
    try:
        log = _ControlLog(tx) if end is None else _SessionLog(tx, uid)
        log.walk(wanted, end)
    except _Broken as broken:
        return [HeadFinding(uid, name, broken.problem, broken.detail)]
    except Damaged as error:
        return [HeadFinding(uid, name, "unreadable", error.message.rstrip("."))]
    return []


class _Log:
    """A log that is read in order and recomputed. `number` and `chain` are its end."""

    def __init__(self, tx: StoreTransaction, chain: str) -> None:
        self.tx, self.number, self.chain = tx, 0, chain

    def rows(self) -> list[Row]:
        raise NotImplementedError

    def number_of(self, row: Row) -> int:
        raise NotImplementedError

    def stored(self, row: Row) -> str:
        return str(row[-1])

    def link(self, row: Row, number: int) -> str:
        raise NotImplementedError

    def body_fits(self, row: Row) -> bool:
        raise NotImplementedError

    def see(self, row: Row) -> None:
        """Note what a sound row says."""

    def end(self) -> None:
        """Check what only the whole log shows."""

    def walk(self, wanted: tuple[int, str], row_end: tuple[int, str] | None = None) -> None:
        """Recompute the whole log, and compare it with the head and with the session's row on the way.

        The row was read before the log, which may have grown since.
        """
        number, chain = wanted
        while rows := self.rows():
            for place, row in enumerate(rows):
                self._step(row, rows[place + 1 : place + 1 + NEAR])
                if self.number == number and self.chain != chain:
                    raise _Broken("rewritten", f"events 1 to {number} are not those of the head")
                if row_end is not None and self.number == row_end[0] and self.chain != row_end[1]:
                    raise _Broken("edited", f"the row of the session has another chain for event {self.number}")
                self.see(row)
        if self.number < number:
            raise _Broken("truncated", f"it ends with event {self.number}, and the head has event {number}")
        if row_end is not None and not number <= row_end[0] <= self.number:
            raise _Broken("edited", f"its row ends with event {row_end[0]}, and its log with event {self.number}")
        self.end()

    def _step(self, row: Row, later: list[Row]) -> None:
        expected = self.number + 1
        if self.number_of(row) != expected:
            raise _Broken("gap", f"event {expected} is missing, the next one is event {self.number_of(row)}")
        linked = self.link(row, expected)
        if linked != self.stored(row):
            ends = {self.stored(row), *map(self.stored, later)}
            moved = next((one for one in later if self.link(one, expected) in ends), None)
            if moved is not None:
                raise _Broken(
                    "reordered", f"event {expected} was moved: its content is now event {self.number_of(moved)}"
                )
            raise _Broken("edited", f"event {expected} does not continue the chain")
        if not self.body_fits(row):
            raise _Broken("edited", f"the content of event {expected} does not match its digest")
        self.number, self.chain = expected, linked


class _SessionLog(_Log):
    def __init__(self, tx: StoreTransaction, uid: str) -> None:
        super().__init__(tx, events.genesis(uid))
        self.uid = uid
        self._empty: set[int] = set()  # events without a body
        self._said: set[int] = set()  # events that an event says were erased
        self._is_excused = False  # a removal forgets all of them

    def rows(self) -> list[Row]:
        return self.tx.all("event.after", uid=self.uid, after=self.number, limit=PAGE)

    def number_of(self, row: Row) -> int:
        return int(row[1])

    def link(self, row: Row, number: int) -> str:
        _, _, kind, actor, at, effect_id, move_id, _, _, of_body, _ = row
        return events.link(self.chain, number, kind, actor, at, effect_id, move_id, of_body)

    def body_fits(self, row: Row) -> bool:
        body, salt, of_body = row[7:10]
        if body is None or salt is None:
            return body is salt
        return len(salt) == events.SALT and events.body_digest(salt, body) == of_body

    def see(self, row: Row) -> None:
        kind, body = row[2], row[7]
        self._is_excused |= kind == "session.removed"
        if body is None:
            self._empty.add(self.number)
        elif kind == "event.erased":
            said: Any = decode(body)
            self._said |= set(said.get("numbers", ()))

    def end(self) -> None:
        unsaid = sorted(self._empty - self._said)
        if unsaid and not self._is_excused:
            raise _Broken("erased", f"event {unsaid[0]} has no content, and nothing says that it was erased")


class _ControlLog(_Log):
    def __init__(self, tx: StoreTransaction) -> None:
        super().__init__(tx, control_event.genesis(meta.get(tx, "store_id") or ""))

    def rows(self) -> list[Row]:
        return self.tx.all("control_event.after", after=self.number, limit=control_log.PAGE)

    def number_of(self, row: Row) -> int:
        return int(row[0])

    def link(self, row: Row, number: int) -> str:
        _, kind, actor, at, move_id, _, of_body, _ = row
        return control_event.link(self.chain, number, kind, actor, at, move_id, of_body)

    def body_fits(self, row: Row) -> bool:
        return bool(digest(row[5]) == row[6])
