"""Principals: who may add them, what a login belongs to, and that an owner stays."""

import pytest

from perdure.domain.principal import PrincipalView
from perdure.errors import ConfigError, Conflict, IllegalMove, NotFound
from perdure.ids import new_uid
from perdure.store.moves import control_log, principal
from perdure.store.store import Store
from tests.runtime.support.people import as_person, register

pytestmark = pytest.mark.databases("sqlite", "postgres", "files")


def put(store: Store, name: str, by: str, **given: object) -> PrincipalView:
    with as_person(by):
        return store.write_now(principal.put(new_uid(), name, by=by, **given))  # type: ignore[arg-type]


def test_the_first_principal_is_who_adds_it_and_an_owner(store: Store) -> None:
    for wrong in ({"logins": ["token:grace"]}, {"roles": ["approver"]}):
        with pytest.raises(IllegalMove, match="is you"):
            put(store, "ada", "ada", **wrong)
    assert not store.read_now(principal.is_governed)
    made = put(store, "ada", "ada")
    assert (made.roles, made.logins, made.kind) == (["owner"], ["token:ada"], "person")


def test_only_an_owner_changes_principals(store: Store) -> None:
    register(store, "grace", owner="ada")
    for by in ("grace", "linus"):
        with pytest.raises(IllegalMove, match="Only an owner"):
            put(store, "mallory", by)
        with as_person(by), pytest.raises(IllegalMove, match="Only an owner"):
            store.write_now(principal.remove("ada", by=by))
    assert [one.name for one in store.read_now(principal.listing)] == ["ada", "grace"]


def test_the_last_owner_stays(store: Store) -> None:
    register(store, "grace", owner="ada")
    with as_person("ada"):
        for move in (principal.remove("ada", by="ada"), principal.remove_login("ada", "token:ada", by="ada")):
            with pytest.raises(IllegalMove, match="last owner"):
                store.write_now(move)
    with pytest.raises(IllegalMove, match="last owner"):
        put(store, "ada", "ada", roles=["auditor"])
    put(store, "grace", "ada", roles=["owner"])
    with as_person("grace"):
        store.write_now(principal.remove("ada", by="grace"))
    assert [one.name for one in store.read_now(principal.listing)] == ["grace"]


def test_a_login_belongs_to_one_principal_until_it_is_removed(store: Store) -> None:
    register(store, "grace", "linus", owner="ada")
    put(store, "grace", "ada", logins=["os:1001", "os:01001"])
    with pytest.raises(Conflict, match="os:1001 is a login of grace"):
        put(store, "linus", "ada", logins=["os:1001"])
    with as_person("ada"):
        store.write_now(principal.remove_login("grace", "os:1001", by="ada"))
    assert put(store, "linus", "ada", logins=["os:1001"]).logins == ["os:1001", "token:linus"]


def test_a_removed_principal_is_known_by_no_login(store: Store) -> None:
    register(store, "grace", owner="ada")
    with as_person("ada"):
        store.write_now(principal.remove("grace", by="ada"))
        with pytest.raises(NotFound):
            store.write_now(principal.remove("grace", by="ada"))
    assert store.read_now(principal.of_identity, "token:grace") is None
    assert put(store, "grace", "ada").roles == []


def test_every_change_of_principals_is_in_the_control_log(store: Store) -> None:
    register(store, "grace", owner="ada")
    put(store, "grace", "ada")  # changes nothing
    with as_person("ada"):
        store.write_now(principal.remove("grace", by="ada"))
    lines = list(store.read_now(lambda tx: list(control_log.listing(tx))))
    assert [(one.kind, one.body["principal"]["name"]) for one in reversed(lines)] == [
        ("principal.put", "ada"), ("principal.put", "grace"), ("principal.removed", "grace"),
    ]  # fmt: skip
    assert {one.body["identity"] for one in lines} == {"token:ada"}
    store.read_now(control_log.verify)


@pytest.mark.parametrize(
    "given", [{"name": "a b"}, {"name": "\x1b[2J"}, {"roles": ["root"]}, {"logins": ["grace"]}, {"kind": "cat"}]
)
def test_wrong_principals_are_refused(store: Store, given: dict[str, object]) -> None:
    about = {"name": "ada"} | given
    with pytest.raises(ConfigError):
        put(store, str(about.pop("name")), "ada", **about)
