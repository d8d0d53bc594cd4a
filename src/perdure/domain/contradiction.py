"""Rows that contradict the log of their session.

The log is chained, and a row is not: a row that was changed by hand can claim what never happened. An event names the
columns that it changed, so the log alone gives what every row must say (`state`). Votes, attempts, steps, messages and
artifacts are compared with what their events say of them.

What an event said may have been erased. The rows that it may have changed are then not compared, and `unknown` says
whether a row is one of them. A sealed session may have fewer permissions and approvals than its log says: they are
dropped when a session comes from elsewhere, and nothing is appended to a sealed log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from perdure.domain.effect import AttemptOutcome
from perdure.domain.event import Event
from perdure.domain.fact import private_scope
from perdure.domain.permission import PROGRAM, granted, is_large, is_reduced
from perdure.domain.record import same_json
from perdure.domain.session import Status
from perdure.domain.state import KEYS, NOT_STATE, SessionState, fold, row_name
from perdure.errors import Damaged
from perdure.ids import digest

# Changed without an event: the name of a session that came from elsewhere, its seal, and a parent that is not here.
# `updated_at` is written once a second.
NOT_COMPARED = NOT_STATE | {"id", "sealed_at", "updated_at", "cursor"}
CHANGED_BY = {  # the tables whose rows an event may have changed, by the first word of its kind
    "approval": {"approval", "vote", "wait", "effect", "session"},
    "artifact": {"artifact"},
    "decision": {"decision"},
    "fact": {"fact"},
    "inbox": {"inbox", "wait", "session"},
    "message": {"inbox", "session"},
    "note": {"approval", "effect", "session", "vote", "wait"},
    "step": {"step"},
    "task": {"task"},
    "wait": {"wait", "session"},
}
Columns = Mapping[str, Any]


class Contradiction(msgspec.Struct, frozen=True):
    """A row, and what the log says instead."""

    table: str
    key: dict[str, Any]
    what: str


class LogView:
    """What a log says about the rows of its session."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.erased: set[str] = set()  # tables of which something was erased
        self.erased_effects: set[str] = set()
        self.votes: dict[tuple[str, str], str] = {}
        self.voided: set[str] = set()  # approvals that did not count in a store that the session came to
        self.attempts: dict[tuple[str, int], set[str]] = {}
        self.dispatched: dict[tuple[str, int], int] = {}
        self.steps: dict[int, dict[str, Any]] = {}
        self.inbox: dict[str, dict[str, Any]] = {}
        self.artifacts: dict[str, dict[str, Any]] = {}
        self._number = 0
        try:
            self.state: SessionState = fold(self._hear(events))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Damaged(f"Event {self._number} says what no event of its kind says: {error!r:.80}.") from None

    def _hear(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            self._number = event.number
            if isinstance(event.body, dict):
                self._take(event, event.body)
            else:
                self._miss(event)
            yield event

    def _miss(self, event: Event) -> None:
        if event.effect_id is not None:
            self.erased_effects.add(event.effect_id)
            self.erased |= {"approval"}  # its dispatch uses an approval
        self.erased |= CHANGED_BY.get(event.kind.partition(".")[0], {"session"})

    def _take(self, event: Event, body: dict[str, Any]) -> None:
        match event.kind:
            case "approval.voted":
                self.votes[body["approval"], event.actor] = body["decision"]
            case "step.recorded":
                self.steps[event.number] = body["step"] | {"outcome": body["outcome"], "at": event.at}
            case "inbox.received":
                row = {"mode": body["mode"], "sequence": body["sequence"], "body": body["message"]}
                self.inbox[body["id"]] = row | {"sender": event.actor, "received_at": event.at, "promoted_as": None}
            case "message" if body.get("inbox") in self.inbox:
                self.inbox[body["inbox"]]["promoted_as"] = event.number
            case "artifact.saved":
                self.artifacts.setdefault(body["digest"], {"size": body["size"]})
            case "note":
                self.voided |= body.get("void", {}).keys()
                for id, voters in body.get("void", {}).items():
                    for voter in voters:
                        self.votes.pop((id, voter), None)
                for id, votes in body.get("valid", {}).items():
                    self.votes |= {(id, voter): decision for voter, decision in votes.items()}
        if event.effect_id is not None and isinstance(number := body.get("attempt"), int):
            self.attempts.setdefault((event.effect_id, number), set()).add(event.kind)
            if event.kind == "effect.dispatched":
                self.dispatched[event.effect_id, number] = event.at

    def unknown(self, table: str, row: Columns) -> bool:
        """Whether something that the log said of this row may have been erased."""
        if table in ("effect", "attempt"):
            return row.get("id" if table == "effect" else "effect_id") in self.erased_effects or "effect" in self.erased
        return table in self.erased


def contradictions(session: Columns, tables: Mapping[str, Iterable[Columns]], told: LogView) -> Iterator[Contradiction]:
    """Every row that is not as the log says. JSON columns are decoded."""
    yield from _of_session(session, told)
    sealed = session["sealed_at"] is not None
    for table in KEYS:
        rows = list(tables[table])
        yield from _of_table(table, rows, told, session["uid"], sealed)
    yield from _of_votes(tables["vote"], told, sealed)
    yield from _of_attempts(tables["attempt"], told)
    yield from _of_steps(tables["step"], told)
    yield from _of_named("inbox", "id", tables["inbox"], told.inbox, told)
    yield from _of_named("artifact", "digest", tables["artifact"], told.artifacts, told)


def _of_session(row: Columns, told: LogView) -> Iterator[Contradiction]:
    if "session" in told.erased:
        return
    is_elsewhere = row["sealed_at"] is not None  # the folder of imported history is chosen where it is imported
    for name, said in told.state.session.items():
        if name in NOT_COMPARED or name not in row:
            continue
        here = row[name]
        fits = (
            _fits_arguments(row, here, said) if name == "arguments"
            else here is None or here == said or is_elsewhere if name == "repository"
            else here is None or here == said if name in ("parent_uid", "parent_wait")
            else here == Status.READY if name == "status" and said == Status.RUNNING and here != said
            else same_json(here, said)
        )  # fmt: skip
        if not fits:
            yield Contradiction("session", {"uid": row["uid"]}, _differs(name, here, said))


def _fits_arguments(row: Columns, here: Any, said: Any) -> bool:
    """A sealed session without its permissions has its arguments in the row, also where its log names an artifact."""
    if is_large(said) and not is_large(here) and row["sealed_at"] is not None:
        return row["program"] == PROGRAM and not granted(PROGRAM, here, None)
    return is_reduced(row["program"], here, said)


def _of_table(table: str, rows: list[Columns], told: LogView, uid: str, sealed: bool) -> Iterator[Contradiction]:
    keys = KEYS[table]
    said = dict(getattr(told.state, f"{table}s"))
    if table == "fact":  # others are shared, or say what a person allows here, and do not belong to one log
        said = {name: row for name, row in said.items() if row.get("scope") == private_scope(uid)}
    for row in rows:
        key = {name: row[name] for name in keys}
        log = said.pop(row_name(keys, dict(row)), None)
        if told.unknown(table, row):
            continue
        if log is None:
            yield Contradiction(table, key, "the log does not say that there is such a row")
            continue
        for name, value in log.items():
            if name in row and not same_json(row[name], value) and not (sealed and _is_void(table, name, row, told)):
                yield Contradiction(table, key, _differs(name, row[name], value))
                break
    for row in said.values():
        if not told.unknown(table, row) and not (sealed and table in ("approval", "wait")):
            key = {name: row.get(name) for name in keys}
            yield Contradiction(table, key, "the log says that there is such a row, and it is missing")


def _is_void(table: str, name: str, row: Columns, told: LogView) -> bool:
    """Whether a row of a sealed session lacks an approval that its log has, or one that was void elsewhere."""
    if table == "approval":
        void = row["decision"] is None or row["id"] in told.voided
        return void and name in ("decision", "decided_at", "consumed_by")
    if table == "wait":
        void = row["resolved_at"] is None or row["id"] in told.voided
        return void and row["kind"] == "approval" and name.startswith(("resolved", "answer"))
    return table == "effect" and name == "approval_id" and row["approval_id"] is None


def _of_votes(rows: Iterable[Columns], told: LogView, sealed: bool) -> Iterator[Contradiction]:
    if "vote" in told.erased:
        return
    missing = dict(told.votes)
    for row in rows:
        at = (row["approval_id"], row["voter"])
        if missing.pop(at, None) != row["decision"] and not (sealed and at[0] in told.voided):
            yield Contradiction("vote", {"approval_id": at[0], "voter": at[1]}, "the log has no such vote")
    for approval, voter in () if sealed else missing:
        yield Contradiction("vote", {"approval_id": approval, "voter": voter}, "the log has this vote; it is missing")


def _of_attempts(rows: Iterable[Columns], told: LogView) -> Iterator[Contradiction]:
    missing = dict(told.attempts)
    for row in rows:
        at = (row["effect_id"], row["number"])
        kinds = missing.pop(at, None)
        if told.unknown("attempt", row):
            continue
        key = {"effect_id": at[0], "number": at[1]}
        if kinds is None:
            yield Contradiction("attempt", key, "the log does not say that there is such a row")
        elif not _fits(row["outcome"], kinds):
            yield Contradiction("attempt", key, f"outcome is {row['outcome']}, and the log says otherwise")
        elif told.dispatched.get(at, row["dispatched_at"]) != row["dispatched_at"]:
            yield Contradiction("attempt", key, _differs("dispatched_at", row["dispatched_at"], told.dispatched[at]))
    for effect, number in missing:
        if effect not in told.erased_effects:
            key = {"effect_id": effect, "number": number}
            yield Contradiction("attempt", key, "the log says that there is such a row, and it is missing")


def _fits(outcome: str | None, kinds: set[str]) -> bool:
    """Whether an attempt can have this outcome after the events that name it."""
    if "effect.acknowledged" in kinds:
        return outcome == AttemptOutcome.ACKNOWLEDGED
    known = kinds & {"effect.failed", "effect.absent", "effect.unknown", "effect.presumed", "effect.settled"}
    if not known:
        return outcome is None
    return outcome != AttemptOutcome.ACKNOWLEDGED and (
        outcome is not None or known <= {"effect.settled", "effect.failed"}
    )


def _of_steps(rows: Iterable[Columns], told: LogView) -> Iterator[Contradiction]:
    if "step" in told.erased:
        return
    missing = dict(told.steps)
    for row in rows:
        key = {name: row[name] for name in ("scope", "name", "occurrence")}
        outcome = digest(row["result"] or row["artifact"] or row["error"] or "")
        if missing.pop(row["number"], None) != key | {"outcome": outcome, "at": row["at"]}:
            yield Contradiction("step", key | {"number": row["number"]}, "the log says otherwise")
    for number, step in missing.items():
        key = {name: step[name] for name in ("scope", "name", "occurrence")} | {"number": number}
        yield Contradiction("step", key, "the log says that there is such a row, and it is missing")


def _of_named(
    table: str, key: str, rows: Iterable[Columns], said: Mapping[str, dict[str, Any]], told: LogView
) -> Iterator[Contradiction]:
    if table in told.erased:
        return
    missing = dict(said)
    for row in rows:
        log = missing.pop(row[key], None)
        if log is None:
            yield Contradiction(table, {key: row[key]}, "the log does not say that there is such a row")
            continue
        for name, value in log.items():
            if not same_json(row[name], value):
                yield Contradiction(table, {key: row[key]}, _differs(name, row[name], value))
                break
    for name in missing:
        yield Contradiction(table, {key: name}, "the log says that there is such a row, and it is missing")


def _differs(name: str, row: Any, log: Any) -> str:
    return f"{name} is {_short(row)}, and the log says {_short(log)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
