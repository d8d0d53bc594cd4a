"""What must be true of a store after a crash: nothing acknowledged is lost, no move is half there, and work continues.

A verdict lists sentences under four heads:

    lost      it was acknowledged, and it is not there, or not as it was acknowledged
    half      part of a move is visible, or a move's rows and its events disagree
    broken    numbers have a gap, the chain does not verify, the database does not hold together
    stuck     the next process cannot continue
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw
import msgspec
import psycopg

from perdure.artifacts.directory import Directory
from perdure.clock import SECOND
from perdure.domain.event import Event
from perdure.domain.session import TERMINAL, SessionRecord, Status
from perdure.domain.state import NOT_STATE, SessionState, row_name
from perdure.domain.wait import Wait
from perdure.errors import Damaged, NotFound, PerdureError
from perdure.store.move import StoreTransaction
from perdure.store.moves import artifact, decision, event, fact, inbox, lease, session, step, task, wait
from perdure.store.store import Store
from perdure.testing import ManualClock

Verdict = dict[str, list[str]]
HEADS = ("lost", "half", "broken", "stuck")


def verdict(**found: list[str]) -> Verdict:
    return {head: found.get(head, []) for head in HEADS}


def fingerprint(rows_by_table: dict[str, Any]) -> dict[str, str]:
    """The rows of a session by table, short enough to be compared with hundreds of others."""
    return {table: sha256(msgspec.json.encode(rows)).hexdigest()[:12] for table, rows in rows_by_table.items()}


def compare(now: dict[str, str], measures: list[dict[str, str]], acknowledged: int) -> Verdict:
    """Whether the session is as it was after its last acknowledged move, or after the one that was under way."""
    allowed = measures[acknowledged : acknowledged + 2]
    if now in allowed:
        return verdict()
    if now in measures:
        return verdict(lost=[f"{acknowledged} moves were acknowledged, {measures.index(now)} are there"])
    differ = [table for table in allowed[0] | now if allowed[0].get(table) != now.get(table)]
    return verdict(half=[f"after {acknowledged} moves {', '.join(differ)} is in a state that no move leaves"])


def examine(tx: StoreTransaction, uid: str) -> Verdict:
    """A session on its own: the log against itself, and every row against the log."""
    try:
        row = event.verify(tx, uid)
    except Damaged as damage:
        return verdict(broken=[damage.message])
    state = event.state_at(tx, uid)
    lines = [line for page in _pages(tx, uid) for line in page]
    half = [
        *([f"there are events after the cursor {row.cursor}"] if lines[-1].number != row.cursor else []),
        *_session_against(row, state),
        *_tables_against(tx, uid, state),
        *_steps_against(tx, row, lines),
        *_inbox_against(tx, uid, lines),
        *_artifacts_against(tx, uid, lines),
    ]
    return verdict(half=half)


def _pages(tx: StoreTransaction, uid: str) -> Iterator[list[Event]]:
    number = 0
    while page := event.after(tx, uid, number):
        yield page
        number = page[-1].number


def _session_against(row: SessionRecord, state: SessionState) -> list[str]:
    columns = {k: v for k, v in row.to_dict().items() if k not in NOT_STATE and k != "crash_count"}
    if 0 <= state.session["updated_at"] - row.updated_at < SECOND:  # a hot move updates the time once a second
        del columns["updated_at"]
    return [
        f"session.{name} is {value!r}, and {state.session.get(name)!r} by the log"
        for name, value in columns.items()
        if state.session.get(name) != value
    ]


def _tables_against(tx: StoreTransaction, uid: str, state: SessionState) -> list[str]:
    tables: list[tuple[str, tuple[str, ...], list[Any], dict[str, dict[str, Any]]]] = [
        ("wait", ("id",), wait.of_session(tx, uid), state.waits),
        ("task", ("id",), task.of_session(tx, uid), state.tasks),
        ("decision", ("id",), decision.recent(tx, uid, limit=10_000), state.decisions),
    ]
    known = [one for row in state.facts.values() if (one := fact.get(tx, row["scope"], row["key"]))]
    facts = {name: row for name, row in state.facts.items() if not row.get("forgotten")}
    found = []
    for table, keys, rows, logged in (*tables, ("fact", ("scope", "key"), known, facts)):
        there = {row_name(keys, row.to_dict()): row.to_dict() for row in rows}
        if there != logged:
            found.append(f"{table} rows are {sorted(there)}, by the log {sorted(logged)}, or differ inside")
    return found


def _steps_against(tx: StoreTransaction, row: SessionRecord, lines: list[Event]) -> list[str]:
    rows = {one.number: one.name for n in range(row.restart_number + 1) for one in step.of_session(tx, row.uid, n)}
    logged = {line.number: line.body["step"]["name"] for line in lines if line.kind == "step.recorded"}
    return [f"step rows are {rows}, by the log {logged}"] if rows != logged else []


def _inbox_against(tx: StoreTransaction, uid: str, lines: list[Event]) -> list[str]:
    received = {line.body["id"]: line.body["sequence"] for line in lines if line.kind == "inbox.received"}
    promoted = {line.body["inbox"]: line.number for line in lines if line.kind == "message" and "inbox" in line.body}
    rows = {name: inbox.get(tx, uid, name) for name in received}
    found = [f"message {name} was received and is not there" for name, one in rows.items() if one is None]
    there = [one for one in rows.values() if one is not None]
    found += [f"message {one.id} has sequence {one.sequence}" for one in there if one.sequence != received[one.id]]
    found += [
        f"message {one.id} was promoted as {one.promoted_as}, by the log {promoted.get(one.id)}"
        for one in there
        if one.promoted_as != promoted.get(one.id)
    ]
    unknown = [one.id for one in inbox.unread(tx, uid, limit=10_000) if one.id not in received]
    return found + [f"message {name} is in the inbox and not in the log" for name in unknown]


def _artifacts_against(tx: StoreTransaction, uid: str, lines: list[Event]) -> list[str]:
    rows = sorted(one.digest for one in artifact.of_session(tx, uid))
    logged = sorted(line.body["digest"] for line in lines if line.kind == "artifact.saved")
    return [f"artifact rows {rows}, by the log {logged}"] if rows != logged else []


def bytes_behind(tx: StoreTransaction, uid: str, directory: Directory) -> list[str]:
    """Artifacts that a row claims and whose bytes are not there, or not whole."""
    found = []
    for row in artifact.of_session(tx, uid):
        try:
            if len(directory.get(row.digest)) != row.size:
                found.append(f"artifact {row.digest[:8]} has another size")
        except (NotFound, Damaged) as error:
            found.append(error.message)
    return found


def continue_session(store: Store, id: str) -> Verdict:
    """Another worker takes the session after its lease has ended, writes to it and ends it, unless it is finished."""
    assert isinstance(store.clock, ManualClock)
    store.clock.advance(hours=1)
    try:
        row, waits = store.read_now(_found, id)
        if row is None:
            row = store.write_now(
                session.create(session.NewSession(id=id, program="workload", arguments={"n": 1}), by="b")
            )
        if row.status in TERMINAL:
            return verdict(stuck=[] if row.result == {"ok": True} else [f"the session is {row.status}: {row.result!r}"])
        for open_ in waits if row.status == Status.WAITING else ():
            store.write_now(wait.resolve(row.uid, "successor", open_.id, "continue"))
        holder = store.write_now(lease.acquire(row.uid, "successor", nonce="successor", ttl=1_000_000))
        number = store.write_now(event.append(holder, "note", {"by": "successor"}))
        store.write_now(session.finish(holder, Status.DONE, result={"ok": True}))
        return store.read_now(_ended, row.uid, number + 1)
    except PerdureError as error:
        return verdict(stuck=[f"the successor was refused: {error.code}: {error.message}"])


def _found(tx: StoreTransaction, id: str) -> tuple[SessionRecord | None, list[Wait]]:
    try:
        row = session.get_by_id(tx, id)
    except NotFound:
        return None, []
    return row, wait.open_of_session(tx, row.uid)


def _ended(tx: StoreTransaction, uid: str, number: int) -> Verdict:
    found = examine(tx, uid)
    if session.get(tx, uid).cursor != number:
        found["stuck"].append("the moves of the successor are not where they were acknowledged")
    return found


def integrity_problems(path: Path) -> list[str]:
    """What SQLite itself reports about the file."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        damage = [str(row[0]) for row in db.execute("PRAGMA integrity_check") if row[0] != "ok"]
        return damage + [f"a row of {row[0]} points nowhere" for row in db.execute("PRAGMA foreign_key_check")]
    finally:
        db.close()


def inspect(tx: StoreTransaction, id: str, directory: Directory) -> Verdict:
    """A session by its name, if it is there, with its artifacts."""
    try:
        row = session.get_by_id(tx, id)
    except NotFound:
        return verdict()
    found = examine(tx, row.uid)
    found["half"] += bytes_behind(tx, row.uid, directory)
    return found


def merge(into: Verdict, more: Verdict) -> Verdict:
    for head in HEADS:
        into[head] += more[head]
    return into


def judge_safely(judge: Callable[[], Verdict]) -> Verdict:
    """A verdict even where reading fails: a store that cannot be read is broken, one that refuses is stuck."""
    try:
        return judge()
    except Damaged as error:
        return verdict(broken=[error.message])
    except (apsw.Error, psycopg.Error, PerdureError, OSError) as error:
        return verdict(stuck=[f"{type(error).__name__}: {error}"])
