"""Addresses of PostgreSQL with the parameters for a pooler."""

import pytest

from perdure.config import without_password
from perdure.errors import ConfigError
from perdure.store.databases.postgres.address import direct_address, parse_address

DIRECT = "perdure_direct_url=postgresql%3A%2F%2Fme%3Asecret%40db%2Fx"


@pytest.mark.parametrize(
    ("given", "url", "pooled", "direct"),
    [
        ("postgresql://h/x", "postgresql://h/x", False, "postgresql://h/x"),
        ("postgresql://h/x?perdure_pooler=transaction", "postgresql://h/x", True, None),
        (
            f"postgresql://h/x?sslmode=require&perdure_pooler=transaction&{DIRECT}",
            "postgresql://h/x?sslmode=require",
            True,
            "postgresql://me:secret@db/x",
        ),
        (
            f"postgresql://h/x?perdure_pooler=transaction&sslmode=require&{DIRECT}&target_session_attrs=any",
            "postgresql://h/x?sslmode=require&target_session_attrs=any",
            True,
            "postgresql://me:secret@db/x",
        ),
    ],
)
def test_pooler_parameters_are_taken_out_of_an_address(given: str, url: str, pooled: bool, direct: str | None) -> None:
    assert (parse_address(given).url, parse_address(given).pooled, direct_address(given)) == (url, pooled, direct)


@pytest.mark.parametrize(
    "query",
    [
        "perdure_pooler=session",
        "perdure_pooler=",
        "perdure_poller=transaction",
        DIRECT,
        "perdure_pooler=transaction&perdure_direct_url=db.example.org",
        "perdure_pooler=transaction&perdure_direct_url=postgresql%3A%2F%2Fdb%3Fperdure_pooler%3Dtransaction",
    ],
)
def test_wrong_pooler_parameters_are_refused(query: str) -> None:
    with pytest.raises(ConfigError, match="perdure_"):
        parse_address(f"postgresql://h/x?{query}")


def test_the_password_of_a_direct_address_is_not_shown() -> None:
    shown = without_password(f"postgresql://me:hidden@h/x?perdure_pooler=transaction&{DIRECT}")
    assert "secret" not in shown
    assert "hidden" not in shown
    assert "db" in shown
