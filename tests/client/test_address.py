"""Addresses of services, and the tokens that are sent to them."""

from __future__ import annotations

from pathlib import Path

import pytest

import perdure
from perdure.client.address import Address, find_token, read_address
from perdure.errors import ConfigError

THERE = Address("https://perdure.example.org")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("https://perdure.example.org/", THERE),
        ("https://perdure.example.org:8443/team/", Address("https://perdure.example.org:8443/team")),
        ("http://127.0.0.1:7180", Address("http://127.0.0.1:7180")),
        ("http://[::1]:7180", Address("http://[::1]:7180")),
        ("http://localhost:7180", Address("http://localhost:7180")),
        ("unix:/run/perdure.sock", Address("http://perdure", "/run/perdure.sock")),
        ("unix:///run/perdure.sock", Address("http://perdure", "/run/perdure.sock")),
    ],
)
def test_address_is_read(text: str, found: Address) -> None:
    assert read_address(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "http://perdure.example.org", "http://127.0.0.1.example.org", "http://127.0.0.1@example.org", "https://",
        "https://a:b@example.org", "https://example.org?token=x", "https://example.org#x", "ftp://127.0.0.1",
        "https://example.org:0", "https://example.org:x", "https://[::1",
    ],
)  # fmt: skip
def test_address_to_which_a_token_must_not_be_sent_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        perdure.connect(text, token="prd_secret")
    assert "a:b" not in raised.value.message + raised.value.hint


def test_token_is_given_or_in_the_environment_or_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("PERDURE_TOKEN", raising=False)
    assert find_token(None, THERE) is None
    file = tmp_path / "perdure" / "token"
    file.parent.mkdir()
    file.write_text("prd_of_the_file\n")
    file.chmod(0o600)
    assert find_token(None, THERE) == "prd_of_the_file"
    assert find_token(None, Address("http://perdure", "/sock")) is None  # the kernel tells who asks there
    monkeypatch.setenv("PERDURE_TOKEN", "prd_of_the_environment")
    assert find_token(None, THERE) == "prd_of_the_environment"
    assert find_token("prd_given", THERE) == "prd_given"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_token_file_that_others_can_use_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int) -> None:
    monkeypatch.delenv("PERDURE_TOKEN", raising=False)
    file = tmp_path / "token"
    file.write_text("prd_secret")
    file.chmod(mode)
    monkeypatch.setenv("PERDURE_TOKEN_FILE", str(file))
    with pytest.raises(ConfigError, match="by others"):
        find_token(None, THERE)


def test_token_with_line_feeds_is_refused() -> None:
    with pytest.raises(ConfigError):
        find_token("prd_a\r\nHost: elsewhere", THERE)


def test_empty_token_names_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_TOKEN", "")
    with pytest.raises(ConfigError, match="PERDURE_TOKEN is empty or has characters that no token has"):
        find_token(None, THERE)
