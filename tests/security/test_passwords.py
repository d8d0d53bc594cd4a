"""Attack: a password in an address is kept in a row, or shown where others read it."""

from __future__ import annotations

import pytest

from perdure.config import without_password
from perdure.errors import ConfigError
from perdure.store.inspection.read_access import locate_store
from perdure.store.moves.session import NewSession, create
from tests.cli.support.terminal import Terminal


@pytest.mark.parametrize("password", ["secret", "sec/ret", "sec#ret", "sec?ret", "sec:ret", "%40secret"])
def test_no_password_of_an_address_is_shown(password: str) -> None:
    address = f"postgresql://ada:{password}@db.example.org:5432/perdure?sslmode=require&sslpassword=hidden"
    assert locate_store(address).shown == (
        "postgresql://ada:***@db.example.org:5432/perdure?sslmode=require&sslpassword=***"
    )
    assert without_password(address, mask="") == "postgresql://ada@db.example.org:5432/perdure?sslmode=require"


@pytest.mark.parametrize(
    "address", ["postgresql://db:5432/perdure", "postgresql://ada@db/perdure", "postgresql:///perdure?host=/run/a@b"]
)
def test_an_address_without_a_password_stays_as_it_is(address: str) -> None:
    assert without_password(address).replace("%40", "@") == address


def test_an_unknown_address_is_refused_without_its_password(terminal: Terminal) -> None:
    for words in (("ls",), ("doctor",), ("run", "p")):
        said = terminal(*words, "--store", "mysql://ada:secret@db/perdure")
        assert (said.code != 0, "secret" in said.out + said.err) == (True, False), said.err


def test_a_repository_with_a_password_is_refused() -> None:
    with pytest.raises(ConfigError, match="password"):
        create(NewSession(id="s", program="p", arguments={}, repository="https://ada:secret@git.example.org/x"), by="a")
    create(NewSession(id="s", program="p", arguments={}, repository="ssh://git@git.example.org:22/x"), by="a")
