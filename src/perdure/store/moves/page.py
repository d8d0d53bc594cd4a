"""Reads of lists by key, a page at a time, for callers who may see a part of them.

Each row comes with its key, after which the next page begins, and with the place of its session: scopes decide by it.
So a page costs one statement however many sessions its rows are of. A damaged row has a key and no item.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from perdure.domain.approval import Approval
from perdure.domain.artifact import Artifact
from perdure.domain.caller import Place
from perdure.domain.decision import Decision
from perdure.domain.effect import Effect
from perdure.domain.fact import Fact
from perdure.domain.record import Record
from perdure.domain.session import SessionRecord
from perdure.domain.wait import Wait
from perdure.ids import check_text
from perdure.store.move import StoreTransaction
from perdure.store.moves import effect
from perdure.store.moves.effect_input import EffectKey
from perdure.store.moves.failed_session import FailedSessionFilter
from perdure.store.row_check import damaged_row, readable
from perdure.store.statements import RECORDS

R = TypeVar("R", bound=Record)
Key = Sequence[int | str]
FIRST, LAST = -1, 2**62  # before and after all times
WAITING = "waiting"  # the filter for approvals that are not decided


class PlacedRow(NamedTuple, Generic[R]):
    """A row of a list."""

    key: Key
    item: R | None  # None: it is damaged, or a filter leaves it out
    place: Place


def approvals(
    tx: StoreTransaction, after: Key | None, *, uid: str | None = None, decision: str | None = None, limit: int
) -> list[PlacedRow[Approval]]:
    """Approvals: first those that are not decided, each part the oldest first. The key begins with the part."""
    part, *rest = after or (0, FIRST, "", "")
    names, found = ("asked_at", "session_uid", "id"), list[PlacedRow[Approval]]()
    if part == 0 and decision in (None, WAITING):
        found = _rows(tx, "approval.page_waiting", "approval", names, rest, uid=uid, limit=limit)
    if part == 0:
        rest = [FIRST, "", ""]
    decided: list[PlacedRow[Approval]] = []
    if len(found) < limit and decision != WAITING:
        left = limit - len(found)
        decided = _rows(
            tx, "approval.page_decided", "approval", names, rest, uid=uid, decision=decision, limit=left
        )  # fmt: skip
    return [
        *(one._replace(key=(0, *one.key)) for one in found),
        *(one._replace(key=(1, *one.key)) for one in decided),
    ]


def waits(tx: StoreTransaction, after: Key | None, *, kind: str | None = None, limit: int) -> list[PlacedRow[Wait]]:
    """Open waits, the longest wait first."""
    names = ("since", "session_uid", "id")
    return _rows(tx, "wait.page", "wait", names, after or (FIRST, "", ""), kind=kind, limit=limit)


def artifacts(
    tx: StoreTransaction, after: Key | None, *, uid: str | None = None, limit: int
) -> list[PlacedRow[Artifact]]:
    """Claims of sessions on artifacts, the newest first."""
    names = ("created_at", "digest", "session_uid")
    return _rows(tx, "artifact.page", "artifact", names, after or (LAST, "", ""), uid=uid, limit=limit)


def decisions(
    tx: StoreTransaction, after: Key | None, *, uid: str | None = None, incomplete: bool = False, limit: int
) -> list[PlacedRow[Decision]]:
    """Decisions, the newest first."""
    names, only = ("decided_at", "session_uid", "id"), "yes" if incomplete else None
    return _rows(
        tx, "decision.page", "decision", names, after or (LAST, "", ""), uid=uid, incomplete=only, limit=limit
    )  # fmt: skip


def facts(tx: StoreTransaction, after: Key | None, *, scope: str | None = None, limit: int) -> list[PlacedRow[Fact]]:
    """Facts by scope and key. Those that are not of a session have no place: they belong to the whole store."""
    return _rows(tx, "fact.page", "fact", ("scope", "key"), after or ("", ""), only=scope, limit=limit)


def effects(tx: StoreTransaction, after: Key | None, *, limit: int, **filters: Any) -> list[PlacedRow[Effect]]:
    """Effects by the filters of `effect.listing`, the newest first."""
    places: list[Place] = []
    before = None if after is None else EffectKey(int(after[0]), str(after[1]))
    found = effect.listing(tx, before=before, limit=limit, places=places, **filters)
    return [PlacedRow((one.planned_at, one.id), one, place) for one, place in zip(found, places, strict=True)]


def failed_sessions(
    tx: StoreTransaction, after: Key | None, *, wanted: FailedSessionFilter, limit: int
) -> list[PlacedRow[SessionRecord]]:
    """Failed sessions that are not retried any more and not archived, the most recently changed first."""
    for text in (wanted.queue, wanted.program, wanted.owner, wanted.error):
        check_text("The filter", text or "")
    filters = {"queue": wanted.queue, "program": wanted.program, "owner": wanted.owner, "since": wanted.since}
    names = ("updated_at", "uid")
    values = dict(zip(names, after or (LAST, ""), strict=True))
    found = [SessionRecord.from_row(row) for row in tx.all("session.failed_page", **filters, **values, limit=limit)]
    return [
        PlacedRow(
            (one.updated_at, one.uid), one if wanted.matches(one.error) else None, Place(one.queue, one.repository_id)
        )
        for one in found
    ]


def _rows(
    tx: StoreTransaction, name: str, table: str, names: Sequence[str], after: Key, **values: Any
) -> list[PlacedRow[Any]]:
    """The rows of a statement after a key; the place of the session is in their last two columns."""
    kind, found = RECORDS[table], []
    for row in readable(tx, name, **dict(zip(names, after, strict=True)), **values):
        columns, place = row[:-2], Place(*row[-2:])
        given = dict(zip(kind.columns(), columns, strict=True))
        key = tuple(one if isinstance(one := given[name], int) else str(one) for name in names)
        found.append(PlacedRow(key, None if damaged_row(table, columns) else kind.from_row(columns), place))
    return found
