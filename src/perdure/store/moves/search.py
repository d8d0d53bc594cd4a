"""The search index: made by those who search, and never part of a session's own writes.

    lock      the row of the whole index: one indexer at a time
    look      sessions that changed since the index was last complete
    index     the words of their new events, and how far each session is indexed
    record    the last id, and the time up to which all is indexed

It is one transaction, and may be repeated. What is erased from a log is forgotten here by triggers, in the transaction
that erases it; they take the same lock, so no indexer can write the words of what it has read before. The pages of the
index keep deleted words until it is written anew (`rewrite`), which the next search does, and housekeeping. If the
tables are emptied, the next searches fill them again.
"""

from __future__ import annotations

import msgspec

from perdure.clock import SECOND
from perdure.domain.search import SearchHit, SearchTerms, snippet, text_of, words_of
from perdure.domain.session import SessionRecord
from perdure.domain.text import content_text
from perdure.errors import Damaged, NotFound
from perdure.ids import digest
from perdure.store.move import StoreTransaction, plain_move
from perdure.store.moves import event
from perdure.store.moves import session as sessions

WHOLE = ""  # the position of the whole index
ERASED = "erased"  # its digest, if words were deleted since it was last rewritten
SESSIONS = 200  # of one move
EVENTS = 500
LATE = 60 * SECOND  # how long a commit may take to be seen by others, after its time


class Progress(msgspec.Struct, frozen=True):
    """What one move has indexed, and whether nothing is left."""

    events: int
    is_complete: bool


class WordPlace(msgspec.Struct, frozen=True):
    """Where terms are: the position in the index, and the event; 0 is what names the session."""

    position: int
    session_uid: str
    number: int


class _Index:
    """The index while its lock is held."""

    def __init__(self, tx: StoreTransaction, last_id: int) -> None:
        self._tx = tx
        self.last_id = last_id
        self.events = 0

    def add(self, uid: str, number: int, at: int, text: str) -> None:
        if words := words_of(text):
            self.last_id += 1
            self._tx.send("search.insert_entry", id=self.last_id, uid=uid, number=number, at=at)
            self._tx.send("search.insert_words", id=self.last_id, words=" ".join(words))

    def _forget_about(self, uid: str) -> None:
        self._tx.send("search.forget_words", uid=uid, number=0)
        self._tx.send("search.forget_entry", uid=uid, number=0)

    def follow(self, uid: str, after: int, known: str) -> int:
        """Index the next events of a session; returns the number of the last one."""
        found = sessions.get(self._tx, uid)
        about = _about(found)
        if (digested := digest(about)) != known:
            self._forget_about(uid)
            self.add(uid, 0, found.created_at, about)
        for one in event.after(self._tx, uid, after, limit=EVENTS - self.events):
            if one.kind != "session.created":  # its names are those of the session
                self.add(uid, one.number, one.at, text_of(one.body))
            self.events, after = self.events + 1, one.number
        self._tx.send("search.put_position", uid=uid, number=after, at=found.updated_at, digest=digested)
        return after


@plain_move
def extend(tx: StoreTransaction) -> Progress:
    """Index the next events that are not indexed."""
    row = tx.one("search.lock")
    last_id, since, condition = (int(row[0]), int(row[1]), str(row[2])) if row else (0, 0, "")
    index, complete_until = _Index(tx, last_id), since
    changed = tx.all("search.changed", since=since, limit=SESSIONS)
    is_complete = len(changed) < SESSIONS
    for uid, cursor, at, number, known in changed:
        if index.events >= EVENTS:
            is_complete = False
            break
        try:
            reached = index.follow(uid, number, known)
        except Damaged:
            tx.send("search.put_position", uid=uid, number=cursor, at=at, digest="")
            continue  # the doctor names the row; the rest is found
        if reached < cursor:
            is_complete = False
            break
        complete_until = max(complete_until, at - LATE)
    if is_complete:
        complete_until = max(complete_until, tx.now - LATE)
    tx.send("search.put_position", uid=WHOLE, number=index.last_id, at=complete_until, digest=condition)
    return Progress(index.events, is_complete)


def is_erased(tx: StoreTransaction) -> bool:
    """Whether words were deleted since the index was last rewritten."""
    row = tx.one("search.condition")
    return row is not None and str(row[0]) == ERASED


@plain_move
def rewrite(tx: StoreTransaction) -> None:
    """Write the index anew, so that deleted words are in no page of it. On PostgreSQL only the owner may."""
    row = tx.one("search.lock")
    if row is not None and row[2] == ERASED:
        tx.run("search.rewrite")
        tx.run("search.put_position", uid=WHOLE, number=row[0], at=row[1], digest="")


def find(
    tx: StoreTransaction, query: SearchTerms, *, uid: str | None = None, before: int = 2**62, limit: int = 100
) -> list[WordPlace]:
    """Where the terms are, the last indexed first."""
    given = {"fts": query.fts, "tsquery": query.tsquery, "before": before, "limit": limit}
    rows = tx.all("search.find", **given) if uid is None else tx.all("search.find_in_session", uid=uid, **given)
    return [WordPlace(*row) for row in rows]


def hit(tx: StoreTransaction, query: SearchTerms, place: WordPlace) -> SearchHit | None:
    """What is there; None if it is erased by now, or damaged: the doctor names it, and the rest is found."""
    try:
        found = sessions.get(tx, place.session_uid)
        if place.number == 0:
            number, kind, at, text = 0, "session", found.created_at, _about(found)
        else:
            (line,) = event.after(tx, found.uid, place.number - 1, limit=1)
            number, kind, at, text = line.number, line.kind, line.at, text_of(line.body)
    except (Damaged, NotFound):
        return None
    return SearchHit(found.uid, found.id, number, kind, at, snippet(text, query), place.position) if text else None


def _about(one: SessionRecord) -> str:
    """What names a session: its id, title, program, repository and prompt."""
    prompt = one.arguments.get("prompt") if isinstance(one.arguments, dict) else None
    return "\n".join(filter(None, [one.title, one.id, content_text(prompt), one.program, one.repository, one.uid]))
