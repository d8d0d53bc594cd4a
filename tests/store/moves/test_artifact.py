"""The artifact index: a session's claim on bytes that are durable already."""

import pytest

from perdure.domain.artifact import Retention
from perdure.errors import Conflict
from perdure.ids import digest
from perdure.store.moves import artifact, event
from perdure.store.store import Store
from perdure.testing import ManualClock
from tests.store.support.sessions import a_session, everything

DIFF = digest("a diff")


def claim(store: Store, uid: str, name: str = DIFF, size: int = 6) -> None:
    store.write_now(
        artifact.index(uid, "ada", name, kind="diff", size=size, location=f"artifacts/{name}", retention=Retention.KEEP)
    )


def test_a_claim_is_kept_with_its_event(store: Store, clock: ManualClock) -> None:
    uid = a_session(store).uid
    claim(store, uid)
    [kept] = store.read_now(artifact.of_session, uid)
    assert (kept.digest, kept.kind, kept.size, kept.retention) == (DIFF, "diff", 6, "keep")
    assert (kept.location, kept.created_at) == (f"artifacts/{DIFF}", clock.now())
    [line] = store.read_now(event.last, uid, limit=1)
    assert (line.kind, line.body["digest"]) == ("artifact.saved", DIFF)


def test_claiming_again_changes_nothing(store: Store) -> None:
    uid = a_session(store).uid
    claim(store, uid)
    before = everything(store)
    claim(store, uid)
    assert everything(store) == before


@pytest.mark.parametrize(("name", "size"), [("short", 6), (DIFF, -1)])
def test_a_digest_is_a_digest_and_a_size_is_a_size(store: Store, name: str, size: int) -> None:
    uid = a_session(store).uid
    with pytest.raises(Conflict):
        claim(store, uid, name, size)
    assert store.read_now(artifact.of_session, uid) == []


def test_every_claimed_digest_is_listed_once_by_page(store: Store) -> None:
    one, two = a_session(store).uid, a_session(store).uid
    names = sorted(digest(str(number)) for number in range(5))
    for name in names:
        claim(store, one, name)
    claim(store, two, names[0])
    seen: list[str] = []
    while page := store.read_now(artifact.digests, after=seen[-1] if seen else "", limit=2):
        assert len(page) <= 2
        seen += page
    assert seen == names
    assert [kept.digest for kept in store.read_now(artifact.of_session, two)] == [names[0]]
