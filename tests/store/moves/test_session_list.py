"""Finding sessions: by name, by a beginning of it, by what an operator asks for, a page at a time."""

import pytest

from perdure.domain.session import Status
from perdure.domain.wait import WaitKind, needs_person
from perdure.errors import ConfigError, Conflict, NotFound
from perdure.store.moves import session, wait
from perdure.store.store import Store
from perdure.testing import ManualClock
from tests.store.support.sessions import a_holder, a_session, session_of


def test_a_session_is_found_by_id_or_unique_prefix(store: Store) -> None:
    one, two = a_session(store, "review-7"), a_session(store, "review-71")
    assert store.read_now(session.find, "review-7") == one
    assert store.read_now(session.find, "review-71") == two
    assert store.read_now(session.find, two.uid) == two
    with pytest.raises(Conflict, match=r"review-7, review-71"):
        store.read_now(session.find, "rev")
    a_session(store, "merge-1")
    assert store.read_now(session.find, "mer").id == "merge-1"


@pytest.mark.parametrize("name", ["", "x", "review-8", "%", "_", "REVIEW-7", "review-7 "])
def test_nothing_else_is_found(store: Store, name: str) -> None:
    a_session(store, "review-7")
    with pytest.raises(NotFound):
        store.read_now(session.find, name)


def test_searching_for_what_cannot_be_a_name_is_refused(store: Store) -> None:
    for name in ("a\0b", "\ud800"):
        with pytest.raises(ConfigError):
            store.read_now(session.find, name)


def test_the_most_recently_moved_come_first_a_page_at_a_time(store: Store, clock: ManualClock) -> None:
    made = []
    for number in range(7):
        made.append(a_session(store, f"s-{number}").id)
        clock.advance(seconds=number % 2)  # some share their moment
    seen: list[str] = []
    page = store.read_now(session.page, limit=2)
    while page:
        seen += [one.id for one in page]
        page = store.read_now(session.page, limit=2, before=page[-1])
    assert sorted(seen) == sorted(made)
    moments = [session_of(store, store.read_now(session.get_by_id, id).uid).updated_at for id in seen]
    assert moments == sorted(moments, reverse=True)


def test_pages_are_filtered_by_status_owner_repository_and_wait(store: Store) -> None:
    ready = a_session(store, "a", owner="ada", repository="api").id
    running = a_session(store, "b", owner="bob", repository="api")
    waiting = a_session(store, "c", owner="ada", repository="web")
    a_holder(store, running.uid)
    holder = a_holder(store, waiting.uid)
    store.write_now(wait.open_(holder, "w", WaitKind.APPROVAL))
    store.write_now(wait.park(holder, ["w"]))

    def ids(**asked: str) -> set[str]:
        return {one.id for one in store.read_now(session.page, **asked)}  # type: ignore[arg-type]

    assert ids() == {ready, running.id, waiting.id}
    assert (ids(status="running"), ids(owner="ada")) == ({running.id}, {ready, waiting.id})
    assert (ids(repository="api"), ids(owner="ada", repository="api")) == ({ready, running.id}, {ready})
    assert (ids(waiting_for="approval"), ids(waiting_for="timer"), ids(status="done")) == ({waiting.id}, set(), set())


def test_sessions_are_listed_as_expired_only_after_their_lease_ended(store: Store, clock: ManualClock) -> None:
    holder = a_holder(store)
    a_session(store)
    clock.advance(seconds=60)
    assert store.read_now(session.expired) == []
    clock.advance(seconds=0.000001)
    assert [one.uid for one in store.read_now(session.expired)] == [holder.uid]


def test_sessions_are_counted_by_status(store: Store) -> None:
    assert store.read_now(session.count) == {}
    a_session(store), a_session(store)
    store.write_now(session.finish(a_holder(store), Status.DONE))
    assert store.read_now(session.count) == {"done": 1, "ready": 2}


@pytest.mark.parametrize(
    ("ref", "detail", "needs"), [(None, None, False), ("ask", {"question": "?"}, True), (None, {"why": "limit"}, True)]
)
def test_session_that_waits_for_the_next_message_needs_no_person(
    store: Store, ref: str | None, detail: dict[str, str] | None, needs: bool
) -> None:
    holder = a_holder(store)
    store.write_now(wait.open_(holder, "w", WaitKind.INPUT, ref=ref, detail=detail))
    store.write_now(wait.park(holder, ["w"]))
    found = store.read_now(session.waiting_for_person)
    assert [one.uid for one in found] == ([holder.uid] if needs else [])
    (asked,) = store.read_now(wait.open_of_session, holder.uid)
    assert needs_person(asked.kind, asked.ref, asked.detail) is needs
