"""Facts: written as of the version that was read, with an age."""

import threading

import pytest

from perdure.clock import SECOND
from perdure.errors import ConfigError, Conflict
from perdure.store.move import Move, StoreTransaction
from perdure.store.moves import event, fact
from perdure.store.store import Store
from perdure.testing import ManualClock
from perdure.testing.proxy import wait_until
from tests.store.support.locks import is_waited_for
from tests.store.support.sessions import a_session

PATIENCE = 60.0  # seconds


def test_a_fact_is_remembered_without_a_lease(store: Store, clock: ManualClock) -> None:
    uid = a_session(store).uid
    known = store.write_now(
        fact.remember(uid, "ada", "repository:api", "branch", {"is": "main"}, verify="git branch", stale_after=SECOND)
    )
    assert (known.version, known.value, known.verify) == (1, {"is": "main"}, "git branch")
    assert (known.session_uid, known.updated_by) == (uid, "ada")
    assert known.updated_at == known.verified_at == clock.now()
    assert store.read_now(fact.get, "repository:api", "branch") == known
    assert store.read_now(fact.get, "repository:api", "other") is None


def test_the_second_of_two_writers_learns_that_it_came_second(store: Store) -> None:
    one, two = a_session(store).uid, a_session(store).uid
    store.write_now(fact.remember(one, "ada", "s", "k", 1, expected=0))
    with pytest.raises(Conflict, match="version 0 was read; it is at version 1"):
        store.write_now(fact.remember(two, "bob", "s", "k", 2, expected=0))
    assert store.write_now(fact.remember(two, "bob", "s", "k", 2, expected=1)).version == 2
    with pytest.raises(Conflict):
        store.write_now(fact.remember(one, "ada", "s", "k", 3, expected=1))
    with pytest.raises(Conflict):
        store.write_now(fact.remember(one, "ada", "s", "k", 3, expected=5))
    now = store.read_now(fact.get, "s", "k")
    assert now is not None
    assert (now.value, now.version, now.session_uid, now.updated_by) == (2, 2, two, "bob")


def test_without_a_version_the_newest_is_overwritten(store: Store) -> None:
    uid = a_session(store).uid
    for number in range(3):
        assert store.write_now(fact.remember(uid, "ada", "s", "k", number)).version == number + 1


@pytest.mark.databases("postgres")
@pytest.mark.parametrize("first", [False, True])
def test_a_write_without_a_version_never_conflicts(store: Store, target: str, first: bool) -> None:
    """Facts belong to no session, so the lock of a session's row does not keep two writers apart."""
    one, two = a_session(store).uid, a_session(store).uid
    if not first:
        store.write_now(fact.remember(one, "ada", "s", "k", "old"))
    inside, go_on, written = threading.Event(), threading.Event(), fact.remember(one, "ada", "s", "k", "ada's")
    process: list[int] = []

    def slowly(tx: StoreTransaction) -> object:
        result = written.run(tx)
        process.append(tx.execute("select pg_backend_pid()", [])[0][0])
        inside.set()
        assert go_on.wait(PATIENCE)
        return result

    threads = [threading.Thread(target=store.write_now, args=(Move("slow", "outsider", slowly),))]
    threads[0].start()
    assert inside.wait(PATIENCE)
    threads.append(threading.Thread(target=store.write_now, args=(fact.remember(two, "bob", "s", "k", "bob's"),)))
    threads[1].start()
    wait_until(lambda: is_waited_for(target, process[0]), "the second writer waits", PATIENCE)
    go_on.set()
    for thread in threads:
        thread.join(PATIENCE)
    now = store.read_now(fact.get, "s", "k")
    assert now is not None
    assert (now.value, now.version) == ("bob's", 2 if first else 3)


def test_a_fact_grows_stale_until_it_is_verified(store: Store, clock: ManualClock) -> None:
    uid = a_session(store).uid
    known = store.write_now(fact.remember(uid, "ada", "s", "k", 1, stale_after=10 * SECOND))
    clock.advance(seconds=11)
    assert known.is_stale(clock.now())
    store.write_now(fact.record_verification(uid, "ada", "s", "k", 1))
    now = store.read_now(fact.get, "s", "k")
    assert now is not None
    assert (now.verified_at, now.updated_at, now.version) == (clock.now(), known.updated_at, 1)
    assert not now.is_stale(clock.now())


def test_only_the_version_that_was_read_is_verified_or_forgotten(store: Store) -> None:
    uid = a_session(store).uid
    store.write_now(fact.remember(uid, "ada", "s", "k", 1))
    store.write_now(fact.remember(uid, "ada", "s", "k", 2))
    for move in (fact.record_verification(uid, "ada", "s", "k", 1), fact.forget(uid, "ada", "s", "k", 1)):
        with pytest.raises(Conflict):
            store.write_now(move)
    store.write_now(fact.forget(uid, "ada", "s", "k", 2))
    assert store.read_now(fact.get, "s", "k") is None
    with pytest.raises(Conflict):
        store.write_now(fact.forget(uid, "ada", "s", "k", 2))
    assert store.write_now(fact.remember(uid, "ada", "s", "k", 3, expected=0)).value == 3


def test_a_fact_that_is_stale_at_once_is_refused(store: Store) -> None:
    uid = a_session(store).uid
    for stale_after in (0, -1):
        with pytest.raises(ConfigError):
            store.write_now(fact.remember(uid, "ada", "s", "k", 1, stale_after=stale_after))
    assert store.read_now(fact.listing) == []


def test_facts_are_listed_by_scope(store: Store) -> None:
    uid = a_session(store).uid
    for scope, key in (("b", "y"), ("a", "z"), ("a", "x")):
        store.write_now(fact.remember(uid, "ada", scope, key, None))
    assert [(one.scope, one.key) for one in store.read_now(fact.listing)] == [("a", "x"), ("a", "z"), ("b", "y")]
    assert [one.key for one in store.read_now(fact.listing, "a")] == ["x", "z"]
    assert [one.key for one in store.read_now(fact.listing, limit=1)] == ["x"]


def test_every_word_about_a_fact_is_in_the_log(store: Store) -> None:
    uid = a_session(store).uid
    store.write_now(fact.remember(uid, "ada", "s", "k", 1))
    store.write_now(fact.record_verification(uid, "ada", "s", "k", 1))
    store.write_now(fact.forget(uid, "ada", "s", "k", 1))
    kinds = [line.kind for line in store.read_now(event.after, uid, 1)]
    assert kinds == ["fact.remembered", "fact.verified", "fact.forgotten"]
