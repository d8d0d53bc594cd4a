"""Lists of sessions, those that need a person first, and the session to resume by default."""

from __future__ import annotations

from functools import partial
from typing import Any

from perdure.domain.session import SessionRecord
from perdure.domain.session_search import has_text
from perdure.errors import NotFound
from perdure.store.move import StoreTransaction
from perdure.store.moves import session
from perdure.store.row_check import DamagedRow

PAGE = 1000  # sessions per read


def list_sessions(
    tx: StoreTransaction, *, limit: int, damaged: list[DamagedRow], status: str | None = None,
    waiting_for: str | None = None, archived: int = session.WITHOUT_ARCHIVED, **filters: Any,
) -> list[SessionRecord]:  # fmt: skip
    """Those that need a person, then those that run, then the rest; the most recently active first.

    Rows that cannot be read are added to `damaged`.
    """
    page_of = partial(session.page, tx, archived=archived, damaged=damaged, **filters)
    if waiting_for is not None:
        return page_of(status=status, waiting_for=waiting_for, limit=limit)
    found: list[SessionRecord] = []
    if archived != session.ONLY_ARCHIVED:
        found = session.waiting_for_person(tx, status=status, limit=limit, damaged=damaged, **filters)
    for wanted in ("running", None) if status is None else (status,):
        seen = {one.uid for one in found}
        page = page_of(status=wanted, limit=limit + len(seen))
        found += [one for one in page if one.uid not in seen]
    return found[:limit]


def search_sessions(
    tx: StoreTransaction, text: str, *, limit: int, damaged: list[DamagedRow], **filters: Any
) -> list[SessionRecord]:
    """Sessions with a text in their id, title or prompt, ignoring case; those that need a person first."""
    found: list[SessionRecord] = []
    before: SessionRecord | None = None
    while len(found) < limit:
        page = session.page(tx, limit=PAGE, before=before, damaged=damaged, **filters)
        found += [one for one in page if has_text(one, text)]
        if len(page) < PAGE:
            break
        before = page[-1]
    needing = {one.uid for one in session.waiting_for_person(tx, limit=PAGE, damaged=[])}
    return sorted(found[:limit], key=lambda one: one.uid not in needing)


def newest_unfinished(tx: StoreTransaction, repository: str | None = None) -> SessionRecord:
    """The most recently active session that has not ended, preferably of a repository.

    A child is resumed with its parent.
    """
    open_ = ("ready", "running", "waiting")
    page = partial(session.page, tx, repository=repository, archived=session.WITHOUT_ARCHIVED)
    found = [one for status in open_ for one in page(status=status)]
    own = [one for one in found if one.parent_uid is None and one.sealed_at is None]
    if not own and repository is not None:
        return newest_unfinished(tx)
    if not own:
        raise NotFound("Every session has ended, or continues elsewhere.", hint="`perdure ls` lists them.")
    return max(own, key=lambda one: (one.updated_at, one.uid))
