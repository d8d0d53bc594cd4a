"""The branches of a session as a graph: each branch is a line, which begins at an event of the line that it left.

root      the session at the end of `forked_from`, as far as the caller may see
line      one branch, in its own row; its first event is drawn at the event of its parent where it was forked
place     an event of a line, in percent of the width, so that the labels stay readable on a phone
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from perdure.domain.session import SessionRecord
from perdure.store.move import StoreTransaction
from perdure.store.moves import session as sessions
from perdure.store.moves import wait

MOST = 200
ROW, TOP = 40, 28
LEFT, RIGHT = 1.5, 97.0  # percent of the width


class BranchLine(msgspec.Struct, frozen=True):
    """One branch, and where it is drawn."""

    session: SessionRecord
    depth: int
    row: int
    start: int  # the event at which it begins, counted along its line from the root
    end: int
    parent_row: int | None = None
    x: float = 0  # percent of the width
    to: float = 0
    is_here: bool = False

    @property
    def y(self) -> int:
        return TOP + self.row * ROW

    @property
    def parent_y(self) -> int:
        return TOP + (self.parent_row or 0) * ROW


class BranchGraph(msgspec.Struct, frozen=True):
    """All branches of a family."""

    lines: list[BranchLine]
    height: int
    is_whole: bool


def family(tx: StoreTransaction, here: SessionRecord, sees: Callable[[SessionRecord], bool]) -> BranchGraph:
    """The branches that belong together with a session, as far as the caller may see them."""
    root = here
    while root.forked_from is not None:
        origin = sessions.get(tx, root.forked_from)
        if not sees(origin):
            break
        root = origin
    lines: list[BranchLine] = []
    waiting: list[tuple[SessionRecord, int, int, int | None]] = [(root, 0, 0, None)]
    while waiting and len(lines) < MOST:
        one, depth, start, parent_row = waiting.pop(0)
        row = len(lines)
        lines.append(BranchLine(one, depth, row, start, start + one.cursor, parent_row, is_here=one.uid == here.uid))
        found = [sessions.get(tx, uid) for uid in wait.branches(tx, one.uid, limit=MOST)]
        below = [(two, depth + 1, start + (two.forked_at or 0), row) for two in found if sees(two)]
        waiting = sorted(below, key=lambda two: two[2]) + waiting  # a branch is drawn below its parent
    return _drawn(lines, is_whole=not waiting)


def _drawn(lines: list[BranchLine], *, is_whole: bool) -> BranchGraph:
    longest = max((one.end for one in lines), default=1) or 1
    scale = (RIGHT - LEFT) / longest
    placed = [
        msgspec.structs.replace(one, x=round(LEFT + one.start * scale, 2), to=round(LEFT + one.end * scale, 2))
        for one in lines
    ]
    return BranchGraph(placed, TOP + ROW * len(placed), is_whole)


def parting(tx: StoreTransaction, one: SessionRecord, other: SessionRecord) -> tuple[str, int] | None:
    """Where two branches part: the session whose log both share, and its last event that they share."""
    first, second = _line(tx, one), _line(tx, other)
    for uid, through in first.items():
        if uid in second:
            return uid, min(through, second[uid])
    return None


def _line(tx: StoreTransaction, one: SessionRecord) -> dict[str, int]:
    """The sessions that a branch inherits from, each with the last event that it inherits; itself first."""
    found, through = {one.uid: one.cursor}, one
    while through.forked_from is not None and len(found) < MOST:
        found[through.forked_from] = through.forked_at or 0
        through = sessions.get(tx, through.forked_from)
    return found
