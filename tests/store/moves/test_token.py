"""Tokens: who may create them, whom they authenticate, rotation, revocation."""

import pytest

from perdure.clock import SECOND
from perdure.domain.caller import Caller, Place, Verb
from perdure.domain.principal import Role
from perdure.domain.token import TokenView, token_id, token_text
from perdure.errors import ConfigError, Conflict, IllegalMove, NotFound
from perdure.ids import digest
from perdure.store.moves import control_log, principal, token
from perdure.store.store import Store
from perdure.testing import ManualClock
from tests.runtime.support.people import as_person, register
from tests.store.support.sessions import raw

pytestmark = pytest.mark.databases("sqlite", "postgres", "files")
DAY = 24 * 3600 * SECOND


def text_of(number: int) -> str:
    return token_text(f"{number:010}", bytes([number]) * 32)


def create(store: Store, name: str, number: int, by: str = "ada", **given: object) -> TokenView:
    with as_person(by):
        move = token.create(f"{number:010}", digest(text_of(number)), name, by=by, **given)  # type: ignore[arg-type]
        return store.write_now(move)


def caller(store: Store, text: str) -> Caller | None:
    return store.read_now(token.authenticate, text)


def test_a_token_authenticates_its_principal(store: Store) -> None:
    register(store, "grace", owner="ada", roles=["approver"])
    made = create(store, "grace", 1, scopes=["queue:b", "queue:a"], label="phone")
    assert (made.principal, made.scopes, made.state) == ("grace", ["queue:a", "queue:b"], "active")
    found = caller(store, text_of(1))
    assert found is not None
    assert (found.name, found.identity, found.roles) == ("grace", "token:0000000001", frozenset({"approver"}))
    assert token_id(text_of(1)) == "0000000001"
    assert store.read_now(principal.of_identity, found.identity) == store.read_now(principal.get, "grace")


def test_only_an_owner_creates_tokens(store: Store) -> None:
    register(store, "grace", owner="ada", roles=["operator"])
    for by in ("grace", "linus"):
        with pytest.raises(IllegalMove, match="Only an owner"):
            create(store, "grace", 1, by=by)
    with pytest.raises(NotFound, match="no principal"):
        create(store, "mallory", 1)


@pytest.mark.parametrize("forged", ["", "x", "prd_0000000001_", text_of(1)[:-1] + "x", text_of(2), text_of(1) + "="])
def test_forged_token_is_nobody(store: Store, forged: str) -> None:
    register(store, "grace", owner="ada")
    create(store, "grace", 1, scopes=["*"])
    assert caller(store, forged) is None
    assert caller(store, text_of(1)) is not None


def test_expired_token_is_nobody(store: Store, clock: ManualClock) -> None:
    register(store, "grace", owner="ada")
    create(store, "grace", 1, scopes=["*"], expires_at=clock.now() + DAY)
    clock.advance(seconds=86399)
    assert caller(store, text_of(1)) is not None
    clock.advance(seconds=1)
    assert caller(store, text_of(1)) is None
    with pytest.raises(ConfigError, match="expired already"):
        create(store, "grace", 2, expires_at=clock.now())


def test_revoked_token_is_nobody_and_no_login(store: Store) -> None:
    register(store, "grace", owner="ada")
    create(store, "grace", 1, scopes=["*"])
    with as_person("ada"):
        assert store.write_now(token.revoke("0000000001", by="ada")).state == "revoked"
        store.write_now(token.revoke("0000000001", by="ada"))
        assert [one.kind for one in store.read_now(lambda tx: list(control_log.listing(tx, kind="token.revoked")))] == [
            "token.revoked"
        ]
    assert caller(store, text_of(1)) is None
    assert store.read_now(principal.of_identity, "token:0000000001") is None


def test_token_of_a_removed_principal_is_nobody(store: Store) -> None:
    register(store, "grace", owner="ada")
    create(store, "grace", 1, scopes=["*"])
    with as_person("ada"):
        store.write_now(principal.remove("grace", by="ada"))
    assert caller(store, text_of(1)) is None


def test_rotation_overlaps_and_happens_once(store: Store, clock: ManualClock) -> None:
    register(store, "grace", owner="ada")
    create(store, "grace", 1, scopes=["queue:a"])
    with as_person("ada"):
        until = clock.now() + DAY
        made = store.write_now(token.rotate("0000000001", "0000000002", digest(text_of(2)), by="ada", until=until))
        assert made.scopes == ["queue:a"]
        with pytest.raises(Conflict, match="rotated already"):
            store.write_now(token.rotate("0000000001", "0000000003", digest(text_of(3)), by="ada", until=until))
    assert caller(store, text_of(1)) is not None
    assert caller(store, text_of(2)) is not None
    clock.advance(days=1)
    assert caller(store, text_of(1)) is None
    assert caller(store, text_of(2)) is not None


def test_a_token_hands_on_no_more_than_it_has(store: Store) -> None:
    register(store, "grace", owner="ada", roles=["owner"])
    create(store, "grace", 1, scopes=["queue:team-*"])
    with pytest.raises(IllegalMove, match="hand on"):
        create(store, "grace", 2, by="0000000001", scopes=["*"])
    assert create(store, "grace", 2, by="0000000001", scopes=["queue:team-a"]).scopes == ["queue:team-a"]


def test_use_is_noted_to_the_minute(store: Store, clock: ManualClock) -> None:
    register(store, "grace", owner="ada")
    create(store, "grace", 1, scopes=["*"])
    store.write_now(token.note_use(["0000000001", "missing"]))
    assert store.read_now(token.get, "0000000001").used_at == clock.now() - clock.now() % (60 * SECOND)


def test_user_of_the_service_owns_a_store_without_principals(store: Store) -> None:
    found = store.read_now(token.peer, "os:1", own="os:1")
    assert found is not None
    assert found.may(Verb.CHANGE_POLICY)
    assert store.read_now(token.peer, "os:2", own="os:1") is None
    register(store, "grace", owner="ada")
    assert store.read_now(token.peer, "os:1", own="os:1") is None


@pytest.mark.parametrize("wrong", ["", "queue:", "queue", "sessions:a", "queue:a*b", "**", "queue:a b", "repository:"])
def test_scope_that_is_none_is_refused(store: Store, wrong: str) -> None:
    register(store, "grace", owner="ada")
    with pytest.raises(ConfigError, match="is not a scope"):
        create(store, "grace", 1, scopes=[wrong])


def test_scopes_limit_what_a_role_may_do() -> None:
    builds, other = Place("builds"), Place("other", "github.com/org/repo")
    nothing = Caller("a", "token:1", frozenset(Role), ())
    assert not any(nothing.may(verb, builds) for verb in Verb)
    queue = Caller("a", "token:1", frozenset({"owner"}), ("queue:builds",))
    assert queue.may(Verb.START_SESSION, builds)
    assert not queue.may(Verb.START_SESSION, other)
    assert not queue.may(Verb.CHANGE_POLICY, builds)
    repository = Caller("a", "token:1", frozenset({"auditor"}), ("repository:github.com/org/*",))
    assert repository.may(Verb.READ_SESSION, other)
    assert not repository.may(Verb.START_SESSION, other)
    assert not repository.may(Verb.READ_SESSION, Place("github.com/org/repo"))


def test_tokens_that_ended_are_forgotten_with_their_logins(store: Store, clock: ManualClock) -> None:
    register(store, "grace", owner="ada", roles=["approver"])
    create(store, "grace", 1, scopes=["*"], expires_at=clock.now() + DAY)
    create(store, "grace", 2, scopes=["*"])
    create(store, "grace", 3, scopes=["*"])
    with as_person("ada"):
        store.write_now(token.revoke(f"{2:010}", by="ada"))
    clock.advance(seconds=2 * 24 * 3600)
    assert not store.read_now(token.has_ended_before, clock.now() - 3 * DAY)
    assert store.write_now(token.forget(clock.now() - 3 * DAY)) == 0
    assert store.read_now(token.has_ended_before, clock.now())
    assert store.write_now(token.forget(clock.now())) == 2
    assert [one.id for one in store.read_now(token.listing)] == [f"{3:010}"]
    logins = store.read_now(lambda tx: principal.logins(tx, principal.get(tx, "grace").uid))
    assert sorted(logins) == [f"token:{3:010}", "token:grace"]
    assert caller(store, text_of(1)) is None
    assert caller(store, text_of(3)) is not None
    told = [one.kind for one in store.read_now(control_log.listing)]
    assert told.count("token.created") == 3


def rotate(store: Store, clock: ManualClock, number: int, by: str, expires_at: int | None = None) -> TokenView:
    """Rotate a token to the one with the next number."""
    id, new = f"{number:010}", f"{number + 1:010}"
    until = clock.now() + DAY
    with as_person(by):
        move = token.rotate(id, new, digest(text_of(number + 1)), by=by, until=until, expires_at=expires_at)
        return store.write_now(move)


def test_a_token_cannot_prolong_its_life_by_rotating_itself(store: Store, clock: ManualClock) -> None:
    register(store, "grace", owner="ada")
    end = clock.now() + 2 * DAY
    create(store, "grace", 1, scopes=["*"], expires_at=end)
    made = [rotate(store, clock, n, f"{n:010}", wanted) for n, wanted in ((1, None), (2, end + DAY), (3, end - 1))]
    assert [one.expires_at for one in made] == [end, end, end - 1]
    assert rotate(store, clock, 4, "ada", end + DAY).expires_at == end + DAY  # an owner may prolong it
    clock.advance(days=2)
    assert [caller(store, text_of(n)) is not None for n in range(1, 6)] == [False] * 4 + [True]


@pytest.mark.parametrize("was_revoked", [False, True])
def test_revoking_a_token_also_ends_what_it_was_rotated_to(store: Store, clock: ManualClock, was_revoked: bool) -> None:
    register(store, "grace", owner="ada")
    create(store, "grace", 1, scopes=["*"])
    for number in (1, 2):
        rotate(store, clock, number, f"{number:010}")
    if was_revoked:  # on its own, as an older version did
        raw(store, "update token set revoked_at = 1, revoked_by = 'ada' where id = '0000000001'")
    with as_person("ada"):
        gone = store.write_now(token.revoke("0000000001", by="ada"))
        again = store.write_now(token.revoke("0000000001", by="ada"))
    assert (gone.also_revoked, again.also_revoked) == (["0000000002", "0000000003"], [])
    assert [caller(store, text_of(n)) for n in (1, 2, 3)] == [None] * 3
    assert store.read_now(principal.of_identity, "token:0000000003") is None
    told = store.read_now(lambda tx: list(control_log.listing(tx, kind="token.revoked")))
    assert sorted(one.body["token"]["id"] for one in told) == [f"{n:010}" for n in (1, 2, 3)][was_revoked:]
