"""Moves and reads of decisions."""

from __future__ import annotations

from perdure.domain.decision import Decision
from perdure.errors import ConfigError, Conflict, NotFound
from perdure.ids import check_name, check_text
from perdure.store.move import Log, StoreTransaction, holder_move, outsider_move
from perdure.store.moves.event import outside_mark

MANY = 1_000_000


@holder_move
def decide(log: Log, id: str, decision: str, *, because: str, then: str | None = None) -> Decision:
    """Record a decision and its reason, before it is acted on."""
    check_name("The decision id", id)
    if not decision.strip() or not because.strip():
        raise ConfigError("A decision needs a text and a reason.")
    check_text("The decision", decision + because + (then or ""))
    fresh = log.tx.run(
        "decision.insert",
        uid=log.uid, id=id, decision=decision, rationale=because, planned_action=then, now=log.tx.now,
    )  # fmt: skip
    made = get(log.tx, log.uid, id)
    if fresh:
        log.append("decision.made", rows={"decision": [made.to_dict()]})
    elif (made.decision, made.rationale, made.planned_action) != (decision, because, then):
        raise Conflict(f"Decision {id} of session {log.head.id} exists already, with another text.")
    return made


@holder_move
def settle(log: Log, id: str, outcome: str) -> Decision:
    """Record the outcome of a decision. The same outcome again changes nothing; another one is a conflict."""
    made = get(log.tx, log.uid, id)
    if made.outcome is not None:
        if made.outcome == outcome:
            return made
        raise Conflict(f"Decision {id} of session {log.head.id} has another outcome already.")
    log.tx.run("decision.settle", uid=log.uid, id=id, outcome=check_text("The outcome", outcome), now=log.tx.now)
    row = {"id": id, "outcome": outcome, "settled_at": log.tx.now}
    log.append("decision.settled", outside_mark(log), rows={"decision": [row]})
    return get(log.tx, log.uid, id)


@outsider_move
def settle_from_outside(log: Log, id: str, outcome: str) -> Decision:
    """Record the outcome of a decision. The session may have ended: its program cannot record it any more."""
    if not outcome.strip():
        raise ConfigError("The outcome of a decision needs a text.")
    return settle.on(log, id, outcome)


def get(tx: StoreTransaction, uid: str, id: str) -> Decision:
    row = tx.one("decision.get", uid=uid, id=id)
    if row is None:
        raise NotFound(f"There is no decision {id}.")
    return Decision.from_row(row)


def find(tx: StoreTransaction, uid: str, name: str) -> Decision:
    """A decision of a session by its id or a unique prefix of it."""
    found = [one for one in recent(tx, uid, limit=MANY) if name and one.id.startswith(name)]
    exact = [one for one in found if one.id == name]
    if len(found) > 1 and not exact:
        names = ", ".join(one.id for one in found[:3])
        raise Conflict(f"{name!r} is the prefix of several decisions: {names}.", hint="Give more characters.")
    if not found:
        raise NotFound(f"There is no decision {name!r:.60}.", hint="`perdure decisions` lists them with their ids.")
    return (exact or found)[0]


def recent(tx: StoreTransaction, uid: str | None = None, *, limit: int = 100) -> list[Decision]:
    """Decisions of one session or of all, the newest first."""
    return [Decision.from_row(row) for row in tx.all("decision.list", uid=uid, limit=limit)]


def incomplete(tx: StoreTransaction, uid: str | None = None, *, limit: int = 100) -> list[Decision]:
    """Decisions without an outcome, the oldest first."""
    return [Decision.from_row(row) for row in tx.all("decision.incomplete", uid=uid, limit=limit)]
