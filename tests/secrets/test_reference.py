"""References to secrets: what is one, what it names, and that its value is never shown."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest

from perdure import ConfigError, Secret
from perdure.secrets.redaction import KNOWN, redact
from perdure.secrets.reference import name_secrets

VALUE = "a-value-of-a-test-1"


def test_a_variable_and_a_file_are_revealed_as_they_are_now(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = folder / "token"
    file.write_text(f"{VALUE}\n")
    monkeypatch.setenv("TEST_TOKEN", "another-value-2")
    token = Secret(f"file:{file}")
    assert (token.reveal(), Secret("env:TEST_TOKEN").reveal()) == (VALUE, "another-value-2")
    file.write_text("rotated-value-3")
    assert token.reveal() == "rotated-value-3"
    assert redact(f"{VALUE} rotated-value-3") == f"[secret file:{file}] [secret file:{file}]"


def test_a_secret_of_an_act_does_not_change_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_TOKEN", VALUE)
    token = Secret("env:TEST_TOKEN")
    token.resolve()
    monkeypatch.delenv("TEST_TOKEN")
    assert token.reveal() == VALUE


def test_a_secret_is_shown_as_its_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_TOKEN", VALUE)
    token = Secret("env:TEST_TOKEN")
    token.resolve()
    assert (repr(token), str(token), f"{token}") == ("Secret('env:TEST_TOKEN')", *["[secret env:TEST_TOKEN]"] * 2)
    for twin in (pickle.loads(pickle.dumps(token)), copy.deepcopy(token)):
        assert twin == token
        assert VALUE.encode() not in pickle.dumps(twin)
    assert len({token, Secret("env:TEST_TOKEN"), Secret("env:OTHER")}) == 2


@pytest.mark.parametrize(
    "text", [VALUE, "env:", "env:1X", "file:relative", "file:/a\0b", "file:/a\nb", "TEST_TOKEN", ""]
)
def test_what_is_no_reference_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(ConfigError, match="not a reference") as refused:
        Secret(text)
    assert VALUE not in str(refused.value) + refused.value.hint


def test_a_missing_secret_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEST_TOKEN", raising=False)
    (folder / "empty").write_text("\n")
    reasons = {
        "env:TEST_TOKEN": "is not set in the environment of this process",
        f"file:{folder}/none": "is in a file that this process cannot read",
        f"file:{folder}/empty": "is empty",
    }
    for reference, why in reasons.items():
        with pytest.raises(ConfigError) as missing:
            Secret(reference).reveal()
        assert missing.value.message == f"The secret {reference} {why}."


def test_a_short_value_is_refused_and_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_TOKEN", "seven77")
    for use in (Secret("env:TEST_TOKEN").reveal, lambda: name_secrets("env:TEST_TOKEN")):
        with pytest.raises(ConfigError, match="too short: at least 8") as refused:
            use()
        assert "seven77" not in str(refused.value)
    monkeypatch.setenv("TEST_TOKEN", "eight888")
    assert Secret("env:TEST_TOKEN").reveal() == "eight888"


def test_named_secrets_are_known_and_those_not_set_here_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_TOKEN", VALUE)
    monkeypatch.delenv("TEST_OTHER", raising=False)
    name_secrets(" env:TEST_TOKEN,env:TEST_OTHER ")
    assert redact(f"({VALUE})") == "([secret env:TEST_TOKEN])"
    assert KNOWN.named == {"env:TEST_TOKEN", "env:TEST_OTHER"}


def test_keys_of_models_are_known_wherever_they_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", VALUE)
    name_secrets(None)
    assert redact(VALUE) == "[secret env:ANTHROPIC_API_KEY]"
    assert not KNOWN.named
