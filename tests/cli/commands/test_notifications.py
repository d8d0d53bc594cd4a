"""`perdure notifications`: what is listed, tested and sent again."""

import json
import sys

import pytest

from perdure.control.trust import trust
from perdure.testing.proxy import wait_until
from tests.cli.support.terminal import Terminal

GOOD = [sys.executable, "-c", "import sys; open('/dev/null', 'w').write(sys.stdin.read())"]
BAD = [sys.executable, "-c", "raise SystemExit(7)"]


def settings(monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    monkeypatch.setenv("PERDURE_NOTIFICATIONS", json.dumps({"ops": {"kind": "command", "command": command}}))


def test_a_channel_is_tested_and_its_notifications_are_listed(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(monkeypatch, BAD)
    failed = terminal("notifications", "test", "ops")
    assert (failed.code, "was not sent to ops: the command ended with 7." in failed.out) == (1, True)
    settings(monkeypatch, GOOD)
    assert "was sent to ops." in terminal("notifications", "test", "ops").out
    monkeypatch.delenv("PERDURE_NOTIFICATIONS")
    assert "waits for a process whose settings" in terminal("notifications", "test", "ops").out
    assert [one["state"] for one in terminal("notifications", "--json").lines] == ["pending", "sent", "pending"]
    assert terminal("notifications", "--failed").out.strip() == "No notification was given up."
    assert [one["here"] for one in terminal("notifications", "channels", "--json").lines] == [False]
    assert "ops" in terminal("notifications", "channels").out
    found = terminal("doctor", "--json").json
    assert [(one["channel"], one["error"]) for one in found["notifications"]] == [("ops", "the command ended with 7")]
    assert any("wait" in one["what"] and one["level"] == "risk" for one in found["findings"])


def test_what_was_given_up_is_sent_again_by_a_worker(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    settings(monkeypatch, BAD)
    terminal("notifications", "test", "ops")
    assert terminal("notifications", "rm", "ops").code == 0  # what waits for a channel that is removed is given up
    assert terminal("notifications", "rm", "ops").code == 1
    settings(monkeypatch, GOOD)
    assert "removed the channel" in terminal("notifications", "--failed").out
    assert any("given up" in one["what"] for one in terminal("doctor", "--json").json["findings"])
    assert terminal("notifications", "retry", "unknown").code == 1
    assert terminal("notifications", "retry", "--json").json == {"retried": 1}
    assert terminal.process("worker", "--idle", "0").code == 0
    wait_until(lambda: bool(terminal("notifications", "--json").json["state"] == "sent"), "it was sent")


@pytest.mark.parametrize("text", ["{", "[]", '{"ops": {"kind": "command", "command": []}}'])
def test_wrong_settings_stop_what_would_send(text: str, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal("principals", "add", "ada")
    monkeypatch.setenv("PERDURE_NOTIFICATIONS", text)
    for words in (["worker", "--idle", "0"], ["serve", "--workers", "1"], ["notifications", "test", "ops"]):
        assert terminal(*words).code == 2, words
    assert terminal("ls").code == 0


def test_channels_are_described_in_the_settings_file(terminal: Terminal) -> None:
    words = ", ".join(json.dumps(one) for one in GOOD)
    text = f'[notifications.ops]\nkind = "command"\ncommand = [{words}]\n'
    (path := terminal.folder / "perdure.toml").write_text(text)
    assert terminal("notifications", "test", "ops").code == 2  # it names a command, so it needs trust
    trust(path, text)
    assert terminal("notifications", "test", "ops").code == 0
