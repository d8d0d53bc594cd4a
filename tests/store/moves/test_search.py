"""The search index: it follows the logs, forgets what is erased, and may be deleted."""

from __future__ import annotations

import pytest

from perdure.domain.search import parse_query
from perdure.store.moves import event, search, session_removal
from perdure.store.store import Store
from perdure.testing import ManualClock
from tests.store.support.sessions import a_holder, a_session, raw, rows

TABLES = ("search_entry", "search_words", "search_position")


def extend(store: Store) -> int:
    events = 0
    while True:
        progress = store.write_now(search.extend())
        events += progress.events
        if progress.is_complete:
            return events


def found(store: Store, text: str, uid: str | None = None) -> list[tuple[str, int]]:
    query = parse_query(text)
    hits = [store.read_now(search.hit, query, place) for place in store.read_now(search.find, query, uid=uid)]
    return [(one.session_id, one.number) for one in hits if one is not None]


def say(store: Store, *texts: str, id: str | None = None) -> str:
    """A session whose events say this, from number 3 on."""
    holder = a_holder(store, a_session(store, id).uid)
    for text in texts:
        store.write_now(event.append(holder, "message", {"role": "user", "content": text}))
    return holder.uid


def test_events_are_found_by_words_phrases_and_beginnings(store: Store) -> None:
    say(store, "The price of a cart is wrong.", "push to main", id="shop")
    say(store, "Nothing else", id="other")
    extend(store)
    assert found(store, "price wrong") == [("shop", 3)]
    assert found(store, "WRÓNG") == [("shop", 3)]
    assert found(store, "pri") == [("shop", 3)]
    assert found(store, '"to main"') == [("shop", 4)]
    assert found(store, '"main to"') == []
    assert found(store, "price push") == []
    assert found(store, "other") == [("other", 0)]


@pytest.mark.parametrize("text", ["x OR y", "a* NEAR b", "'", '"un', "-x", "col:y", "a & b | !c", "\\", "<-> :*"])
def test_operators_of_a_database_are_only_text(store: Store, text: str) -> None:
    say(store, f"before {text} after", id="signs")
    extend(store)
    if any(one.isalnum() for one in text):
        assert found(store, text) == [("signs", 3)]
    assert found(store, "before after") == [("signs", 3)]


def test_index_follows_new_events_and_a_new_title(store: Store, clock: ManualClock) -> None:
    holder = a_holder(store, a_session(store, "s", title="First").uid)
    extend(store)
    clock.advance(hours=1)
    store.write_now(event.append(holder, "note", {"text": "later"}))
    raw(store, f"update session set title = 'Second' where uid = '{holder.uid}'")
    extend(store)
    assert found(store, "later") == [("s", 3)]
    assert found(store, "second") == [("s", 0)]
    assert found(store, "first") == []
    assert extend(store) == 0


def test_long_and_many_sessions_are_indexed_in_parts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "EVENTS", 4)
    monkeypatch.setattr(search, "SESSIONS", 2)
    for number in range(5):
        say(store, *(f"word{number} line{line}" for line in range(7)), id=f"s-{number}")
    assert not store.write_now(search.extend()).is_complete
    extend(store)
    assert [len(found(store, f"word{number}")) for number in range(5)] == [7] * 5
    assert len(found(store, "line6")) == 5


def test_what_is_erased_is_not_found_and_not_indexed_again(store: Store) -> None:
    uid = say(store, "secret one", "secret two", id="s")
    extend(store)
    store.write_now(event.erase(uid, "ada", [3], because="asked"))
    assert found(store, "secret") == [("s", 4)]
    raw(store, *(f"delete from {table}" for table in TABLES))
    extend(store)
    assert found(store, "secret") == [("s", 4)]


def test_removed_session_leaves_no_word(store: Store) -> None:
    uid = a_session(store, "secret-name", title="Secret title").uid
    extend(store)
    assert len(found(store, "secret")) == 1
    store.write_now(session_removal.remove(uid, "ada", because="asked"))
    extend(store)
    assert found(store, "secret") == []
    assert rows(store, "search_entry") == []


def test_deleted_index_is_made_again(store: Store) -> None:
    uid = say(store, "the words", id="s")
    extend(store)
    raw(store, *(f"delete from {table}" for table in TABLES))
    assert found(store, "words") == []
    extend(store)
    assert found(store, "words", uid) == [("s", 3)]


def test_damaged_event_does_not_stop_the_search(store: Store) -> None:
    uid = say(store, "broken", id="broken")
    say(store, "whole", id="whole")
    raw(store, f"update session set arguments = 'not json' where uid = '{uid}'")
    extend(store)
    assert found(store, "whole") == [("whole", 3), ("whole", 0)]


@pytest.mark.databases("sqlite")
def test_damaged_event_is_left_out_of_the_hits(store: Store) -> None:
    uid = say(store, "the words", "more words", id="s")
    extend(store)
    raw(
        store,
        "drop trigger event_is_append_only",
        f"update event set body = 'not json' where session_uid = '{uid}' and number = 3",
    )
    assert found(store, "words") == [("s", 4)]


@pytest.mark.databases("sqlite", "postgres")
def test_erased_words_are_in_no_page_of_the_index(store: Store, target: str) -> None:
    """Checked in the file of SQLite, and on PostgreSQL in the size of the index that was written anew."""
    uid = say(store, "zanzibarsecret", id="s")
    say(store, "other words", id="t")
    extend(store)
    assert not store.read_now(search.is_erased)
    store.write_now(event.erase(uid, "ada", [3], because="asked"))
    assert store.read_now(search.is_erased)
    extend(store)
    assert store.read_now(search.is_erased)
    for _ in range(2):
        store.write_now(search.rewrite())
    assert not store.read_now(search.is_erased)
    assert found(store, "other") == [("t", 3)]
    if "://" not in target:
        pages = [bytes(row[1]) for row in rows(store, "search_words_data")]
        assert pages
        assert not any(b"zanzibar" in page for page in pages)


@pytest.mark.databases("files")
def test_text_files_have_no_line_of_the_index(store: Store) -> None:
    say(store, "the words", id="s")
    assert store.folder is not None
    before = {path: path.read_bytes() for path in store.folder.rglob("*.jsonl")}
    extend(store)
    assert found(store, "words") == [("s", 3)]
    assert {path: path.read_bytes() for path in store.folder.rglob("*.jsonl")} == before


@pytest.mark.databases("sqlite", "postgres")
def test_work_of_an_extension_does_not_grow_with_the_store(store: Store, clock: ManualClock) -> None:
    for number in range(30):
        say(store, "old", id=f"old-{number}")
    extend(store)
    clock.advance(hours=1)
    extend(store)
    clock.advance(hours=1)
    say(store, "new", id="new")
    (since,) = (at for uid, _, at, _ in rows(store, "search_position") if not uid)
    assert len(store.read_now(lambda tx: tx.all("search.changed", since=since, limit=100))) == 1
    assert found(store, "old-3 old") == [("old-3", 0)]
