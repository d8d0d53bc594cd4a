"""The settings of channels: what is accepted, and where secrets come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure.errors import ConfigError
from perdure.runtime.notifications.channels import (
    CommandChannel,
    EmailChannel,
    NotSent,
    WebhookChannel,
    read_channels,
    resolve_secret,
)

WEBHOOK: dict[str, Any] = {"kind": "webhook", "url": "https://hooks.example/a", "secrets": ["env:HOOK"]}
EMAIL: dict[str, Any] = {"kind": "email", "to": ["a@b.example"], "from": "p@b.example", "server": "smtps://b.example"}


def test_channels_of_each_kind_are_read_as_tables_or_json() -> None:
    tables = {"ops": WEBHOOK, "page": {"kind": "command", "command": ["/bin/page", "on call"]}, "mail": EMAIL}
    found = read_channels(tables)
    assert [type(one) for one in found.values()] == [WebhookChannel, CommandChannel, EmailChannel]
    text = '{"page": {"kind": "command", "command": ["/bin/page", "on call"]}}'
    assert read_channels(text) == {"page": found["page"]}
    assert read_channels(None) == read_channels("") == {}


@pytest.mark.parametrize(
    ("channel", "said"),
    [
        ({"kind": "pigeon"}, "Invalid value 'pigeon'"),
        (WEBHOOK | {"url": "http://hooks.example/a"}, "not https"),
        (WEBHOOK | {"url": "https://ada:pw@hooks.example/a"}, "a user name"),
        (WEBHOOK | {"url": "https://hooks.example/a\r\nX: y"}, "not an address"),
        (WEBHOOK | {"url": "https://hooks.example:port/"}, "not an address"),
        (WEBHOOK | {"secrets": ["hunter2-hunter2-hunter2"]}, "not a reference"),
        (WEBHOOK | {"secrets": []}, "one secret, or two"),
        (WEBHOOK | {"secrets": ["env:A", "env:B", "env:C"]}, "one secret, or two"),
        (WEBHOOK | {"topics": ["weather"]}, "not a topic"),
        (WEBHOOK | {"password": "env:A"}, "unknown field"),
        (WEBHOOK | {"console": "javascript:alert(1)"}, "not one of a service"),
        ({"kind": "command", "command": []}, "empty"),
        ({"kind": "command", "command": ["page"]}, "not an absolute path"),
        ({"kind": "command", "command": "page me"}, "Expected `array`"),
        (EMAIL | {"to": []}, "no recipient"),
        (EMAIL | {"to": ["a@b.example\nBcc: x@y.example"]}, "not an email address"),
        (EMAIL | {"server": "smtp://u:pw@b.example", "password": "env:A"}, "has a password"),
        (EMAIL | {"server": "smtp://u@b.example"}, "a user and a password"),
        (EMAIL | {"server": "mail.example"}, "not an address"),
    ],
)
def test_wrong_settings_are_refused_and_named(channel: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_channels({"ops": channel})
    assert said in raised.value.message
    assert "hunter2" not in raised.value.message


def test_a_secret_is_read_anew_for_each_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secret"
    for text in ("first", "second"):
        file.write_text(f"{text}\n")
        monkeypatch.setenv("HOOK", text)
        assert [resolve_secret("env:HOOK"), resolve_secret(f"file:{file}")] == [text, text]
    file.unlink()
    monkeypatch.delenv("HOOK")
    for reference in ("env:HOOK", f"file:{file}"):
        with pytest.raises(NotSent):
            resolve_secret(reference)
