"""Decisions: recorded before they are acted on, settled once, listed until they have an outcome."""

import pytest

from perdure.errors import ConfigError, Conflict, NotFound
from perdure.store.moves import decision, event
from perdure.store.store import Store
from perdure.testing import ManualClock
from tests.store.support.sessions import a_holder, everything


def test_a_decision_has_a_text_a_reason_and_a_planned_action(store: Store, clock: ManualClock) -> None:
    holder = a_holder(store)
    made = store.write_now(decision.decide(holder, "d-1", "comment", because="only style", then="post_comment"))
    assert (made.decision, made.rationale, made.planned_action) == ("comment", "only style", "post_comment")
    assert (made.outcome, made.settled_at, made.decided_at) == (None, None, clock.now())
    assert store.read_now(decision.get, holder.uid, "d-1") == made


@pytest.mark.parametrize(("text", "because"), [("", "x"), ("x", ""), ("  ", "x"), ("x", "\n"), ("x\0", "y")])
def test_a_decision_needs_a_text_and_a_reason(store: Store, text: str, because: str) -> None:
    holder = a_holder(store)
    with pytest.raises(ConfigError):
        store.write_now(decision.decide(holder, "d-1", text, because=because))
    assert store.read_now(decision.recent, holder.uid) == []


def test_the_same_decision_again_is_that_decision_settled_or_not(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(decision.decide(holder, "d-1", "comment", because="style"))
    settled = store.write_now(decision.settle(holder, "d-1", "commented"))
    before = everything(store)
    assert store.write_now(decision.decide(holder, "d-1", "comment", because="style")) == settled
    assert everything(store) == before


def test_another_text_under_its_id_is_a_conflict(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(decision.decide(holder, "d-1", "comment", because="style", then="post"))
    for text, because, then in (("block", "style", "post"), ("comment", "taste", "post"), ("comment", "style", None)):
        with pytest.raises(Conflict):
            store.write_now(decision.decide(holder, "d-1", text, because=because, then=then))


def test_an_outcome_is_written_once(store: Store, clock: ManualClock) -> None:
    holder = a_holder(store)
    store.write_now(decision.decide(holder, "d-1", "comment", because="style"))
    clock.advance(seconds=2)
    settled = store.write_now(decision.settle(holder, "d-1", "commented"))
    assert (settled.outcome, settled.settled_at) == ("commented", clock.now())
    clock.advance(seconds=2)
    assert store.write_now(decision.settle(holder, "d-1", "commented")) == settled
    with pytest.raises(Conflict):
        store.write_now(decision.settle(holder, "d-1", "blocked"))
    kinds = [line.kind for line in store.read_now(event.after, holder.uid)]
    assert kinds.count("decision.settled") == 1


def test_only_what_was_decided_has_an_outcome(store: Store) -> None:
    with pytest.raises(NotFound):
        store.write_now(decision.settle(a_holder(store), "d-1", "commented"))


def test_incomplete_ones_are_listed_the_oldest_first_and_all_the_newest_first(store: Store, clock: ManualClock) -> None:
    one, two = a_holder(store), a_holder(store)
    for holder, id in ((one, "d-1"), (two, "d-2"), (one, "d-3")):
        store.write_now(decision.decide(holder, id, "x", because="y"))
        clock.advance(seconds=1)
    store.write_now(decision.settle(one, "d-1", "good"))
    assert [made.id for made in store.read_now(decision.incomplete)] == ["d-2", "d-3"]
    assert [made.id for made in store.read_now(decision.incomplete, one.uid)] == ["d-3"]
    assert [made.id for made in store.read_now(decision.recent)] == ["d-3", "d-2", "d-1"]
    assert [made.id for made in store.read_now(decision.recent, one.uid, limit=1)] == ["d-3"]
