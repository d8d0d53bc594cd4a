"""Attack: a secret that no user named is recorded, and shown on a terminal, a page, in a notification and a log."""

from __future__ import annotations

import io
import logging
import zipfile
from pathlib import Path

import pytest

import perdure
from perdure import Session, program
from perdure.cli.log import JsonFormatter, StandardError
from perdure.console import markup
from perdure.domain.notification import Notification
from perdure.runtime.notifications.sender import content_of
from tests.cli.support.terminal import Terminal, write_settings

KEY = "ghp_" + "aB3" * 12
APP = """
import os
from perdure import program

@program
async def t(s):
    return await s.step("read", lambda: os.environ["TEST_TOKEN"])
"""


def test_a_terminal_masks_and_json_and_bundles_are_exact(terminal: Terminal) -> None:
    @program
    async def prints(s: Session) -> str:
        return await s.step("read", lambda: f"the key {KEY} and text")

    perdure.run(prints.bind(), id="masked", store=(store := str(terminal.folder / "masked.db")))
    shown = terminal("show", "masked", "--store", store)
    assert (KEY in shown.out, "the key ghp_*** and text" in shown.out) == (False, True)
    assert terminal("show", "masked", "--store", store, "--json").json["session"]["result"] == f"the key {KEY} and text"
    bundle_file = terminal.folder / "b.zip"
    assert terminal("export", "masked", "--store", store, "--to", str(bundle_file)).code == 0
    with zipfile.ZipFile(bundle_file) as bundle:
        assert any(KEY.encode() in bundle.read(name) for name in bundle.namelist())


def test_an_error_is_masked_and_a_new_token_is_not(terminal: Terminal) -> None:
    terminal("principals", "add", "ada", "--role", "owner")
    wrong = terminal("show", KEY)
    assert (wrong.code != 0, KEY in wrong.err, "ghp_***" in wrong.err) == (True, False, True)
    assert terminal("token", "create", "ada").out.startswith("prd_")
    assert "***" not in terminal("token", "create", "ada").out


def test_a_page_a_notification_and_the_log_are_masked(capsys: pytest.CaptureFixture[str]) -> None:
    assert markup.block(f"a {KEY}") == "a ghp_***"
    assert KEY not in markup.json({"k": [KEY]})
    fields = dict.fromkeys(Notification.__struct_fields__) | {
        "topic": "doubt",
        "body": {"text": KEY, "about": {"x": [KEY]}},
    }
    assert KEY not in str(content_of(Notification(**fields)))  # type: ignore[arg-type]
    for formatter in (logging.Formatter(), JsonFormatter()):
        handler = StandardError(io.StringIO())
        handler.setFormatter(formatter)
        record = logging.LogRecord("perdure", logging.ERROR, "f", 1, "It said %s.", (KEY,), None)
        assert (KEY in handler.format(record), "ghp_***" in handler.format(record)) == (False, True)


def test_the_setting_names_secrets_by_reference(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_TOKEN", "a-value-of-a-test-1")
    Path("app.py").write_text(APP)
    write_settings('secrets = ["env:TEST_TOKEN"]\n')
    said = terminal.process("run", "t", "--app", "app.py", "--json")
    assert (said.code, "a-value-of-a-test-1" in said.out + said.err) == (0, False), said.err
    assert "[secret env:TEST_TOKEN]" in said.out
    write_settings('secrets = "sk-1234567890"\n')
    said = terminal.process("run", "t", "--app", "app.py")
    assert (said.code, "A secret is not a reference." in said.err) == (2, True), said.err
    assert "sk-1234567890" not in said.err
