"""Moves and reads of schedules.

    put        adds a schedule or changes it; a change begins a new version, whose ticks are after the change
    start_tick one transaction: the schedule's row is locked; if the tick was not handled yet, its session is created,
               or left out because of `overlap`, and the tick becomes the last one that was handled
    drop       records that missed ticks are not made up
    promote    lets the next session of a line begin, when those before it have ended

However many schedulers run, they take the row's lock one after the other, and only the first finds the tick unhandled.
A crash leaves the tick before or after its transaction. The session of a tick has the same uid whenever it is created:
if a restore takes the row back, the tick creates the same session again, and `restore.over` counts that session as one
that was alive at its tick.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from perdure.domain.record import same_json
from perdure.domain.schedule import Overlap, Schedule, TickOutcome
from perdure.domain.schedule_times import next_due, session_id, tick_uid
from perdure.domain.session import SessionRecord, Status
from perdure.domain.wait import WaitKind
from perdure.errors import Conflict, Damaged, NotFound
from perdure.ids import encode, new_uid
from perdure.store.invocation import described
from perdure.store.move import Move, StoreTransaction, enter, plain_move
from perdure.store.moves import control_log, meta, requester, session_start, wait
from perdure.store.moves.session import START, NewSession
from perdure.store.topics import SCHEDULES

MOST_OPEN = 1000  # sessions of a schedule that have not ended: with so many, ticks are skipped
DEFINITION = ("cron", "every", "timezone", "jitter", "overlap", "catch_up", "program", "arguments", "options")
Builder = Callable[[Schedule, int, int, str, str], NewSession]  # of a schedule, the time, the tick, an id and a uid


class OpenSession(NamedTuple):
    """A session of a schedule that has not ended."""

    uid: str
    id: str
    in_line: bool  # it waits until the sessions before it have ended


class TickResult(NamedTuple):
    """What became of a tick. The session is the one that it started, or for which it was skipped."""

    tick: int
    outcome: TickOutcome
    session: str


def put(name: str, definition: dict[str, Any], *, by: str) -> Move[Schedule]:
    """Add a schedule, or change the one of this name. The same definition again changes nothing."""
    uid = new_uid()
    columns = definition | {key: encode(definition[key]) for key in ("arguments", "options")}

    def run(tx: StoreTransaction) -> Schedule:
        row = tx.one("schedule.lock_by_name", name=name)
        was = None if row is None else Schedule.from_row(row)
        if was is not None and all(same_json(getattr(was, key), definition[key]) for key in DEFINITION):
            return was
        last = tx.now if was is None else max(tx.now, was.last_tick or 0)
        version = 1 if was is None else was.version + 1
        made = _as_schedule(was.uid if was else uid, name, definition, version)
        due = next_due(store_id(tx), made, last)
        times = {"uid": made.uid, "last_tick": last, "next_due": due, "by": by, "now": tx.now}
        if was is not None:
            tx.run("schedule.change", **columns, **times, version=version)
        elif not tx.run("schedule.insert", name=name, **columns, **times):
            return run(tx)  # another process added one of this name meanwhile
        said = {"schedule": name, "uid": made.uid, "version": version, "definition": definition}
        control_log.append(tx, "schedule.changed" if was else "schedule.added", by, said)
        tx.wake_service(SCHEDULES)
        return get(tx, name)

    return Move("schedule.put", "plain", run)


@plain_move
def set_paused(tx: StoreTransaction, name: str, paused: bool, *, by: str) -> Schedule:
    """Pause a schedule, or resume it. What becomes of the ticks in between is decided by its `catch_up`."""
    found = _lock(tx, name)
    if (found.paused_at is not None) != paused:
        tx.run("schedule.pause", uid=found.uid, at=tx.now if paused else None, by=by, now=tx.now)
        kind = "schedule.paused" if paused else "schedule.resumed"
        control_log.append(tx, kind, by, {"schedule": name, "uid": found.uid})
        tx.wake_service(SCHEDULES)
    return get(tx, name)


@plain_move
def remove(tx: StoreTransaction, uid: str, *, by: str) -> None:
    """Remove a schedule. Its sessions stay, and its name can be used again."""
    row = tx.one("schedule.lock", uid=uid)
    if row is not None and (found := Schedule.from_row(row)).removed_at is None:
        tx.run("schedule.remove", uid=uid, by=by, now=tx.now)
        control_log.append(tx, "schedule.removed", by, {"schedule": found.name, "uid": uid})


def start_tick(uid: str, version: int, tick: int, build: Builder) -> Move[TickResult | None]:
    """Handle a tick. None: it was handled already, or the schedule was paused, changed or removed meanwhile."""

    def run(tx: StoreTransaction) -> TickResult | None:
        found = _current(tx, uid, version)
        if found is None or found.paused_at is not None or tick <= (found.last_tick or 0):
            return None
        known = _session_at(tx, found, tick)
        if known is not None:  # started by a backfill
            result = TickResult(tick, TickOutcome.STARTED, known.id)
        elif len(still := open_sessions(tx, uid, limit=MOST_OPEN)) >= (
            1 if found.overlap == Overlap.SKIP else MOST_OPEN
        ):
            result = TickResult(tick, TickOutcome.SKIPPED, still[0].id)
        else:
            result = TickResult(tick, TickOutcome.STARTED, _create(tx, found, tick, build, requester.TICK).id)
        skips = (found.outcomes.get(TickOutcome.SKIPPED) or {}).get("count", 0)
        said: dict[str, Any] = {"tick": tick, "session": result.session, "at": tx.now}
        if result.outcome is TickOutcome.SKIPPED:
            said["count"] = skips + 1
        _advance(tx, found, tick, {result.outcome: said})
        return result

    return Move("schedule.start_tick", "outsider", run)


@plain_move
def drop(tx: StoreTransaction, uid: str, version: int, first: int, last: int) -> None:
    """Record that the missed ticks from one to another are not made up."""
    found = _current(tx, uid, version)
    if found is not None and found.paused_at is None and last > (found.last_tick or 0):
        _advance(tx, found, last, {TickOutcome.DROPPED: {"first": first, "tick": last, "at": tx.now}})


@plain_move
def postpone(tx: StoreTransaction, uid: str, version: int, until: int | None, error: str | None = None) -> None:
    """Handle the schedule later, because its tick is not due yet or its session could not be started."""
    found = _current(tx, uid, version)
    if found is None:
        return
    at = next_due(store_id(tx), found, found.last_tick or 0) if until is None else until
    said = {} if error is None else {TickOutcome.REFUSED: {"error": error, "at": tx.now}}
    columns = {"last_tick": found.last_tick, "next_due": at, "outcomes": encode(found.outcomes | said)}
    tx.run("schedule.advance", uid=uid, **columns)


@plain_move
def hold(tx: StoreTransaction, uid: str, until: int) -> None:
    """Handle a schedule later, although its row cannot be read."""
    tx.run("schedule.hold", uid=uid, next_due=until)


def backfill_tick(uid: str, version: int, tick: int, build: Builder) -> Move[TickResult | None]:
    """Start the session of a past tick, unless it has one. None: it has one, or the schedule was changed meanwhile."""

    def run(tx: StoreTransaction) -> TickResult | None:
        found = _current(tx, uid, version)
        if found is None or _session_at(tx, found, tick) is not None:
            return None
        return TickResult(tick, TickOutcome.STARTED, _create(tx, found, tick, build, requester.BACKFILL).id)

    return Move("schedule.backfill_tick", "outsider", run)


def trigger(uid: str, build: Builder, *, by: str, session_uid: str) -> Move[SessionRecord]:
    """Start a session of a schedule now, beside its ticks. Its `overlap` holds."""

    def run(tx: StoreTransaction) -> SessionRecord:
        row = tx.one("schedule.lock", uid=uid)
        if row is None or (found := Schedule.from_row(row)).removed_at is not None:
            raise NotFound("The schedule was removed meanwhile.")
        if made := tx.one("session.get", uid=session_uid):
            return SessionRecord.from_row(made)
        if found.overlap == Overlap.SKIP and (still := open_sessions(tx, uid, limit=1)):
            raise Conflict(
                f"Session {still[0].id} of schedule {found.name} has not ended.",
                hint="Wait for it, or cancel it. With `--overlap queue` sessions of a schedule wait in line.",
            )
        return _create(tx, found, tx.now, build, requester.TRIGGER, by, session_uid)

    return Move("schedule.trigger", "outsider", run)


@described
def promote(uid: str) -> Move[str | None]:
    """Let the next session of a line begin, if all others of the schedule have ended; returns its id."""

    def run(tx: StoreTransaction) -> str | None:
        row = tx.one("schedule.lock", uid=uid)
        if row is None or not has_next(tx, uid):
            return None
        (first,) = open_sessions(tx, uid, limit=1)
        log = enter(tx, first.uid, actor(Schedule.from_row(row)))
        wait.settle(log, wait.get(tx, log.uid, START), None)
        log.close()
        return first.id

    return Move("schedule.promote", "outsider", run)


def _create(
    tx: StoreTransaction, found: Schedule, tick: int, build: Builder, start: str, by: str | None = None,
    uid: str | None = None,
) -> SessionRecord:  # fmt: skip
    """Create the session of a tick; with `overlap` queue behind those that have not ended."""
    uid = uid or tick_uid(store_id(tx), found, tick)
    id = session_id(found, tick)
    if tx.one("session.get_by_id", id=id) is not None:  # of another session; its own is known by its tick
        id = f"{id}-{uid[-8:]}"
    in_line = found.overlap == Overlap.QUEUE and bool(before := open_sessions(tx, found.uid, limit=MOST_OPEN))
    new = msgspec.structs.replace(
        build(found, tx.now, tick, id, uid), schedule_start=requester.schedule_start(tx, found.uid, start)
    )
    (started,) = session_start.start([new], by=by or actor(found)).run(tx)
    made = started.session
    if made.uid != uid:
        raise Conflict(f"Another process has just used the id {id}.")
    if in_line and made.status == Status.READY:
        log = enter(tx, made.uid, by or actor(found))
        detail = {"schedule": found.name, "session": before[-1].id}
        columns = {"id": START, "kind": WaitKind.SLOT, "ref": before[-1].id, "detail": encode(detail), "due_at": None}
        tx.run("wait.insert", uid=log.uid, now=tx.now, number=log.cursor + 1, **columns)
        tx.run("session.set_status", uid=log.uid, status=Status.WAITING, waiting_since=tx.now)
        rows = {"wait": [wait.get(tx, log.uid, START).to_dict()]}
        log.append("wait.opened", rows=rows | {"session": {"status": Status.WAITING, "waiting_since": tx.now}})
        log.close()
    return made


def _advance(tx: StoreTransaction, found: Schedule, tick: int, said: dict[TickOutcome, Any]) -> None:
    kept = {key: one for key, one in found.outcomes.items() if key != TickOutcome.REFUSED}
    if TickOutcome.STARTED in said and TickOutcome.SKIPPED in kept:
        kept[TickOutcome.SKIPPED] = kept[TickOutcome.SKIPPED] | {"count": 0}
    columns = {"last_tick": tick, "next_due": next_due(store_id(tx), found, tick), "outcomes": encode(kept | said)}
    tx.run("schedule.advance", uid=found.uid, **columns)


def _current(tx: StoreTransaction, uid: str, version: int) -> Schedule | None:
    row = tx.one("schedule.lock", uid=uid)
    found = None if row is None else Schedule.from_row(row)
    return None if found is None or found.removed_at is not None or found.version != version else found


def _lock(tx: StoreTransaction, name: str) -> Schedule:
    row = tx.one("schedule.lock_by_name", name=name)
    return get(tx, name) if row is None else Schedule.from_row(row)


def _session_at(tx: StoreTransaction, found: Schedule, tick: int) -> SessionRecord | None:
    row = tx.one("schedule.session_at", uid=found.uid, tick=tick)
    return None if row is None else SessionRecord.from_row(row)


def _as_schedule(uid: str, name: str, definition: dict[str, Any], version: int) -> Schedule:
    unset: dict[str, Any] = dict.fromkeys(("last_tick", "next_due", "paused_at", "removed_at"))
    return Schedule(
        uid=uid, name=name, **definition, **unset, version=version, updated_by="", updated_at=0, outcomes={}
    )


def actor(found: Schedule) -> str:
    """Who a session of a schedule is started by."""
    return f"schedule:{found.name}"


def store_id(tx: StoreTransaction) -> str:
    return meta.get(tx, "store_id") or ""


def get(tx: StoreTransaction, name: str) -> Schedule:
    row = tx.one("schedule.get_by_name", name=name)
    if row is None:
        raise NotFound(f"There is no schedule {name[:80]!r}.", hint="`perdure schedules` lists them.")
    return Schedule.from_row(row)


def listing(tx: StoreTransaction, *, limit: int = 1_000_000) -> list[Schedule]:
    return [Schedule.from_row(row) for row in tx.all("schedule.list", limit=limit)]


def due(tx: StoreTransaction, *, limit: int = 100) -> list[tuple[str, Schedule | Damaged]]:
    """Schedules with a tick that is due, by uid, the longest overdue first; one that cannot be read is its error."""
    found: list[tuple[str, Schedule | Damaged]] = []
    for row in tx.all("schedule.due", now=tx.now, limit=limit):
        try:
            found.append((row[0], Schedule.from_row(row)))
        except Damaged as error:
            found.append((row[0], error))
    return found


def first_due(tx: StoreTransaction) -> int | None:
    """When the next tick of any schedule is due."""
    found: int | None = (tx.one("schedule.next_due") or (None,))[0]
    return found


def open_sessions(tx: StoreTransaction, uid: str, *, limit: int) -> list[OpenSession]:
    """The sessions of a schedule that have not ended; those in line come last, in order."""
    rows = tx.all("schedule.open_sessions", uid=uid, wait_id=START, limit=limit)
    return [OpenSession(row[0], row[1], bool(row[2])) for row in rows]


def has_next(tx: StoreTransaction, uid: str) -> bool:
    """Whether a session of the schedule waits in line, and all others have ended."""
    still = open_sessions(tx, uid, limit=1)
    return bool(still) and still[0].in_line


def newest_sessions(tx: StoreTransaction, uid: str, *, limit: int) -> list[SessionRecord]:
    """The newest sessions of a schedule."""
    return [SessionRecord.from_row(row) for row in tx.all("schedule.sessions", uid=uid, limit=limit)]


def lines(tx: StoreTransaction, *, limit: int = 1000) -> list[str]:
    """The uids of schedules with sessions in line."""
    return [row[0] for row in tx.all("schedule.lines", wait_id=START, limit=limit)]
