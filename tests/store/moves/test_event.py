"""The log: numbered without gaps, chained, read in pages, changed only by erasure."""

import pytest

from perdure.errors import ConfigError, Conflict, Damaged, IllegalMove, LeaseLost, NotFound
from perdure.store.moves import event, inbox, session
from perdure.store.store import Store
from tests.store.support.sessions import a_holder, a_session, raw, session_of


def test_events_are_numbered_in_the_order_of_their_commits(store: Store) -> None:
    holder = a_holder(store)
    numbers = [store.write_now(event.append(holder, "note", {"n": n})) for n in range(5)]
    assert numbers == [3, 4, 5, 6, 7]
    log = store.read_now(event.after, holder.uid)
    assert [line.number for line in log] == [1, 2, 3, 4, 5, 6, 7]
    assert [line.body for line in log[2:]] == [{"n": n} for n in range(5)]
    assert {line.actor for line in log[2:]} == {"worker-1"}
    assert (holder.cursor, session_of(store, holder.uid).cursor) == (7, 7)
    assert store.read_now(event.verify, holder.uid).chain == holder.chain


def test_a_holder_whose_guess_is_behind_appends_all_the_same(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(inbox.receive(holder.uid, "ada", "m-1", "hello"))
    assert store.write_now(event.append(holder, "note")) == 4
    assert holder.cursor == 4
    store.read_now(event.verify, holder.uid)


def test_every_event_carries_the_id_of_its_move(store: Store) -> None:
    holder = a_holder(store)
    move = event.append(holder, "message", {"role": "user"}, effect_id="e-1")
    number = store.write_now(move)
    [line] = store.read_now(event.after, holder.uid, number - 1)
    assert (line.move_id, line.effect_id, line.kind) == (move.id, "e-1", "message")


def test_two_events_that_say_the_same_have_different_digests(store: Store) -> None:
    holder = a_holder(store)
    for _ in range(2):
        store.write_now(event.append(holder, "note", {"guess": "yes"}))
    one, two = store.read_now(event.last, holder.uid, limit=2)
    assert one.salt != two.salt
    assert one.digest != two.digest


def test_an_unknown_event_kind_is_refused(store: Store) -> None:
    holder = a_holder(store)
    with pytest.raises((Conflict, IllegalMove)):
        store.write_now(event.append(holder, "nonsense"))
    assert session_of(store, holder.uid).cursor == 2


@pytest.mark.parametrize("body", [{"x": object()}, {"x": "\ud800"}, {"rows": {"session": {"status": "done"}}}])
def test_a_body_that_is_not_json_or_has_rows_is_refused(store: Store, body: dict[str, object]) -> None:
    holder = a_holder(store)
    with pytest.raises(ConfigError):
        store.write_now(event.append(holder, "note", body))
    assert session_of(store, holder.uid).cursor == 2


def test_a_holder_of_before_cannot_append(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(session.release(holder))
    with pytest.raises(LeaseLost):
        store.write_now(event.append(holder, "note"))


def test_pages_and_tails_meet_without_a_gap(store: Store) -> None:
    holder = a_holder(store)
    for _ in range(8):
        store.write_now(event.append(holder, "note"))
    numbers, after = [], 0
    while page := store.read_now(event.after, holder.uid, after, limit=3):
        assert len(page) <= 3
        numbers += [line.number for line in page]
        after = numbers[-1]
    assert numbers == list(range(1, 11))
    assert [line.number for line in store.read_now(event.last, holder.uid, limit=3)] == [8, 9, 10]
    assert [line.number for line in store.read_now(event.last, holder.uid, limit=3, through=5)] == [3, 4, 5]
    assert store.read_now(event.after, holder.uid, 10) == []
    assert store.read_now(event.after, "missing") == []


def test_a_log_longer_than_a_page_is_verified_to_its_end(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event, "PAGE", 3)
    holder = a_holder(store)
    for _ in range(9):
        store.write_now(event.append(holder, "note"))
    assert store.read_now(event.verify, holder.uid).cursor == 11
    raw(store, f"update session set chain = '{'0' * 64}' where uid = '{holder.uid}'")
    with pytest.raises(Damaged, match="does not end"):
        store.read_now(event.verify, holder.uid)


def test_a_row_and_a_log_that_end_at_different_places_are_found(store: Store) -> None:
    uid = a_session(store).uid
    raw(store, f"update session set cursor = 2 where uid = '{uid}'")
    with pytest.raises(Damaged):
        store.read_now(event.verify, uid)
    other, digest = a_session(store).uid, "0" * 64
    raw(
        store,
        "insert into event (session_uid, number, kind, actor, at, move_id, digest, chain)"
        f" values ('{other}', 2, 'note', 'x', 0, 'm', '{digest}', '{digest}')",
    )
    with pytest.raises(Damaged):
        store.read_now(event.verify, other)


def test_erasing_forgets_what_was_said_and_keeps_the_chain(store: Store) -> None:
    holder = a_holder(store)
    for word in ("secret", "other"):
        store.write_now(event.append(holder, "message", {"content": word}))
    assert store.write_now(event.erase(holder.uid, by="ada", numbers=[3], because="asked to")) == 1
    erased, kept, said = store.read_now(event.after, holder.uid, 2)
    assert (erased.body, erased.salt, kept.body) == (None, None, {"content": "other"})
    told = {"numbers": [3], "because": "asked to", "identity": store.identity}
    assert (said.kind, said.body) == ("event.erased", told)
    store.read_now(event.verify, holder.uid)


def test_erasing_erased_or_missing_events_appends_nothing(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(event.append(holder, "message", {"content": "secret"}))
    store.write_now(event.erase(holder.uid, by="ada", numbers=[3], because="asked to"))
    assert store.write_now(event.erase(holder.uid, by="ada", numbers=[3, 99], because="again")) == 0
    assert session_of(store, holder.uid).cursor == 4


def test_state_can_only_be_asked_for_at_an_event(store: Store) -> None:
    uid = a_session(store).uid
    assert store.read_now(event.state_at, uid, 1).number == 1
    for number in (0, 2, -1):
        with pytest.raises(NotFound, match="1 to 1"):
            store.read_now(event.state_at, uid, number)
