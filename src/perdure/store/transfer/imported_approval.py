"""Approvals of an imported session: votes of other stores do not count here.

If an effect was not dispatched, its approval is imported undecided, without votes, and is requested here. If it was
dispatched in another store and is not settled, the approval is left out: the effect keeps its state, and the gate asks
again before the next attempt. Decisions of this store stay.

An approval keeps the conditions of the other store, so that it can be decided immediately. If the gate of the code here
requires more (`approval.must_ask`), another approval is requested before the effect is dispatched.
"""

from __future__ import annotations

import msgspec

from perdure.domain.approval import Approval, Vote
from perdure.domain.effect import SETTLED, EffectState
from perdure.store.move import StoreTransaction
from perdure.store.moves import wait
from perdure.store.transfer.session_export import MANY, Columns, StoredSession


class VoidedVotes(msgspec.Struct):
    """What an import changes in a session's approvals, for its log: voters, votes of this store, and rows."""

    voters: dict[str, list[str]] = {}
    valid: dict[str, dict[str, str]] = {}
    rows: dict[str, list[Columns]] = {}

    @property
    def body(self) -> Columns:
        return ({"void": self.voters} if self.voters else {}) | ({"valid": self.valid} if self.valid else {})

    def add(self, table: str, row: Columns) -> None:
        self.rows.setdefault(table, []).append(row)


def void_approvals(tx: StoreTransaction, stored: StoredSession, *, keep: bool = False) -> VoidedVotes:
    """Remove votes of other stores on effects that are not settled; changes `stored`.

    With `keep` they count, except to a quorum above 1: that counts principals of this store.
    """
    void, tables = VoidedVotes(), stored.tables
    states = {one["id"]: one["state"] for one in tables["effect"] if one["state"] not in SETTLED}
    current = {one["approval_id"] for one in tables["effect"]}  # an effect may have several approvals
    for one in [one for one in tables["approval"] if one["effect_id"] in states and one["id"] in current]:
        row = tx.one("approval.get", uid=stored.uid, id=one["id"])
        here = None if row is None else Approval.from_row(row)
        votes = [
            Vote.from_row(row) for row in tx.all("vote.of_approval", uid=stored.uid, approval_id=one["id"], limit=MANY)
        ]
        own = {vote.voter: vote.decision for vote in votes}
        if keep and one["quorum"] == 1:
            _anonymise(tables["vote"], one["id"])
            continue
        cast = [vote["voter"] for vote in tables["vote"] if vote["approval_id"] == one["id"]]
        if here is not None and here.decision is not None:
            _decide_again(tx, void, stored, one, here, own)
        elif cast or one["decision"] is not None:
            void.voters[one["id"]] = [voter for voter in cast if voter not in own]
            is_begun = states[one["effect_id"]] == EffectState.DISPATCHED and here is None
            (_strip if is_begun else _reset)(void, tables, one)
        tables["vote"] = [vote for vote in tables["vote"] if vote["approval_id"] != one["id"] or vote["voter"] in own]
    tables["approval"] = [one for one in tables["approval"] if "forgotten" not in one]
    tables["wait"] = [one for one in tables["wait"] if "forgotten" not in one]
    return void


def _anonymise(votes: list[Columns], approval: str) -> None:
    """The identities of another store mean nothing here: its `os:1000` may be another person."""
    for one in votes:
        if one["approval_id"] == approval:
            one |= {"identity": None, "principal_uid": None}


def _decide_again(
    tx: StoreTransaction,
    void: VoidedVotes,
    stored: StoredSession,
    approval: Columns,
    here: Approval,
    own: dict[str, str],
) -> None:
    """Keep the decision of this store, whatever was decided in another store since."""
    decided: Columns = {"decision": here.decision, "decided_at": here.decided_at, "consumed_by": here.consumed_by}
    if all(approval[name] == value for name, value in decided.items()):
        return
    asked = wait.get(tx, stored.uid, here.id).to_dict()
    resolved = {name: asked[name] for name in ("answer", "resolved_by", "resolved_at", "resolved_number")}
    approval |= decided
    void.valid[here.id] = own
    void.add("approval", {"id": here.id} | decided)
    void.add("wait", {"id": here.id} | resolved)


def _reset(void: VoidedVotes, tables: dict[str, list[Columns]], approval: Columns) -> None:
    """Make an approval undecided, and open its wait again."""
    undecided: Columns = {"decision": None, "decided_at": None, "consumed_by": None}
    unresolved: Columns = {"answer": None, "resolved_by": None, "resolved_at": None, "resolved_number": None}
    approval |= undecided
    void.add("approval", {"id": approval["id"]} | undecided)
    for asked in tables["wait"]:
        if asked["id"] == approval["id"]:
            asked |= unresolved
            void.add("wait", {"id": asked["id"]} | unresolved)


def _strip(void: VoidedVotes, tables: dict[str, list[Columns]], approval: Columns) -> None:
    """Remove the approval of an effect that another store dispatched; the gate asks again before a new attempt."""
    for one in tables["effect"]:
        if one["id"] == approval["effect_id"]:
            one["approval_id"] = None
            void.add("effect", {"id": one["id"], "approval_id": None})
    for table in ("approval", "wait"):
        for one in tables[table]:
            if one["id"] == approval["id"]:
                one["forgotten"] = True
                void.add(table, {"id": one["id"], "forgotten": True})
