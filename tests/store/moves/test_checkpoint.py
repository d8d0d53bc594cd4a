"""Checkpoints: a quick start, never the truth."""

import pytest

from perdure.errors import ConfigError, LeaseLost
from perdure.store.moves import checkpoint, decision, event, fact, inbox, session, task
from perdure.store.store import Store
from tests.store.support.sessions import a_holder, everything


def test_the_newest_that_fits_is_found(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(checkpoint.put(holder, number=2, codec="json", fingerprint="a", body='{"n":2}'))
    found = store.read_now(checkpoint.latest, holder.uid, "a")
    assert found is not None
    assert (found.number, found.codec, found.body) == (2, "json", '{"n":2}')
    assert store.read_now(checkpoint.latest, holder.uid, "b") is None
    assert store.read_now(checkpoint.latest, holder.uid, "a", through=1) is None
    assert store.read_now(checkpoint.latest, "missing", "a") is None


def test_a_newer_one_replaces_the_older(store: Store) -> None:
    holder = a_holder(store)
    for number, body in ((2, "old"), (5, "new"), (5, "newer")):
        store.write_now(checkpoint.put(holder, number=number, codec="json", fingerprint="a", body=body))
    found = store.read_now(checkpoint.latest, holder.uid, "a")
    assert found is not None
    assert found.body == "newer"
    assert len(everything(store)["checkpoint"]) == 1


def test_only_the_holder_keeps_one(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(session.release(holder))
    with pytest.raises(LeaseLost):
        store.write_now(checkpoint.put(holder, number=2, codec="json", fingerprint="a", body="{}"))
    assert everything(store)["checkpoint"] == []


def test_what_cannot_be_text_is_refused(store: Store) -> None:
    with pytest.raises(ConfigError):
        checkpoint.put(a_holder(store), number=2, codec="json", fingerprint="a", body="a\0b")


def test_deleting_every_checkpoint_changes_nothing_else(store: Store) -> None:
    holders = [a_holder(store) for _ in range(2)]
    for holder in holders:
        store.write_now(task.add(holder, "t-1", "Fix"))
        store.write_now(decision.decide(holder, "d-1", "fix", because="broken"))
        store.write_now(inbox.receive(holder.uid, "ada", "m-1", "hello"))
        store.write_now(fact.remember(holder.uid, "ada", f"session:{holder.uid}", "k", 1))
        store.write_now(checkpoint.put(holder, number=holder.cursor, codec="json", fingerprint="a", body="{}"))
    states = [store.read_now(event.state_at, holder.uid) for holder in holders]
    before = everything(store)
    assert len(before.pop("checkpoint")) == 2
    assert store.write_now(checkpoint.delete_all()) == 2
    after = everything(store)
    assert after.pop("checkpoint") == []
    assert after == before
    assert [store.read_now(event.state_at, holder.uid) for holder in holders] == states
    assert store.write_now(checkpoint.delete_all()) == 0
    store.write_now(event.append(holders[0], "note"))
