"""Attack: a repository, or the model, brings a `perdure.toml` that names code, addresses or a store."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perdure.agent.tools.command import UNTRUSTED
from perdure.control.trust import trust
from perdure.errors import NotDone
from perdure.ids import new_uid
from perdure.store.store import open_store
from tests.agent.support.requirements import need_bubblewrap
from tests.agent.support.tool_calls import do
from tests.cli.support.pseudo_terminal import PseudoTerminal
from tests.cli.support.terminal import Terminal

HOSTILE = 'app = "hostile.py"\nbase_url = "http://127.0.0.1:1/v1"\n'


@pytest.fixture(autouse=True)
def _a_store(terminal: Terminal) -> None:
    open_store(str(terminal.folder / "perdure.db")).close()


@pytest.fixture
def hostile(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose settings name code; the mark is made if that code runs."""
    monkeypatch.delenv("PERDURE_APP", raising=False)
    mark = terminal.folder / "ran"
    (terminal.folder / "hostile.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    (terminal.folder / "perdure.toml").write_text(HOSTILE)
    return mark


@pytest.mark.parametrize(
    "words",
    [
        ("run", "fix it", "--model", "scripted:x"),
        ("resume", "x"),
        ("attach", "x"),
        ("worker", "--idle", "0"),
        ("settle", "x", "--happened", "--because", "y"),
        ("undo", "x", "--because", "y"),
        ("rewind", "x", "--to", "1"),
        ("merge", "x"),
        ("ls",),
        ("doctor",),
    ],
    ids=lambda words: words[0],
)
def test_untrusted_settings_are_refused_without_a_terminal(
    words: tuple[str, ...], terminal: Terminal, hostile: Path
) -> None:
    said = terminal(*words)
    assert (said.code, "not trusted" in said.err, "perdure trust" in said.err) == (2, True, True)
    assert not hostile.exists()


def test_a_folder_may_set_what_is_harmless(terminal: Terminal) -> None:
    (terminal.folder / "perdure.toml").write_text("connections = 3\n")
    assert terminal("ls").code == 0


def test_the_folder_can_be_ignored(terminal: Terminal, hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_IGNORE_FOLDER", "1")
    assert terminal("ls").code == 0
    assert not hostile.exists()


def test_the_user_settings_need_no_trust(terminal: Terminal, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PERDURE_STORE")
    (folder / "config" / "perdure").mkdir(parents=True)
    (folder / "config" / "perdure" / "config.toml").write_text(f'store = "{folder}/mine.db"\n')
    assert terminal("run", "user_talk", "--id", "t").code == 3
    assert (folder / "mine.db").exists()


@pytest.mark.slow
def test_a_terminal_is_asked_once_and_shown_what_changed(terminal: Terminal, hostile: Path) -> None:
    with PseudoTerminal("ls", cwd=terminal.folder) as seat:
        seat.until("base_url")
        seat.until("Trust exactly this content?")
        seat.type("n\n")
        assert seat.ended() == 2
    assert not hostile.exists()
    with PseudoTerminal("ls", cwd=terminal.folder) as seat:
        seat.until("Trust exactly this content?")
        seat.type("y\n")
        assert seat.ended() == 0
    assert terminal("ls").code == 0
    (terminal.folder / "perdure.toml").write_text(HOSTILE.replace(":1/", ":2/"))
    assert terminal("ls").code == 2
    with PseudoTerminal("ls", cwd=terminal.folder) as seat:
        seat.until("has changed since you trusted it")
        seat.until('-base_url = "http://127.0.0.1:1/v1"')
        seat.until('+base_url = "http://127.0.0.1:2/v1"')
        seat.until("Trust exactly this content?")
        seat.type("n\n")
        assert seat.ended() == 2


def test_trust_is_given_by_digest_without_a_terminal(terminal: Terminal, hostile: Path) -> None:
    shown = terminal("trust", "--json")
    assert (shown.code, shown.json["trusted"], shown.json["text"]) == (3, False, HOSTILE)
    assert terminal("trust", "--digest", "0" * 64).code == 2
    assert terminal("trust", "--digest", shown.json["digest"]).code == 0
    assert terminal("ls").code == 0
    assert terminal("trust", "--forget").code == 0
    assert terminal("ls").code == 2


def test_trust_does_not_follow_the_content_to_another_folder(terminal: Terminal, hostile: Path) -> None:
    trust(terminal.folder / "perdure.toml", HOSTILE)
    assert terminal("ls").code == 0
    elsewhere = terminal.folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "perdure.toml").write_text(HOSTILE)
    os.chdir(elsewhere)
    assert terminal("ls").code == 2


@pytest.mark.parametrize("kind", ["link", "fifo", "device", "large", "folder"])
def test_only_a_small_regular_file_is_read(kind: str, terminal: Terminal) -> None:
    path = terminal.folder / "perdure.toml"
    if kind == "link":
        (terminal.folder / "real.toml").write_text("connections = 3\n")
        path.symlink_to("real.toml")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "large":
        path.write_text("#" * (65 << 10))
    else:
        path.mkdir()
    said = terminal("ls")
    assert (said.code, "perdure.toml" in said.err) == (2, True)


@pytest.mark.slow
def test_a_background_worker_imports_nothing_from_the_folder(terminal: Terminal) -> None:
    mark = terminal.folder / "ran"
    for name in ("click", "msgspec", "perdure", "rich", "apsw", "sitecustomize"):
        (terminal.folder / f"{name}.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    assert terminal.process("run", "user_talk", "--id", "t", "--detach").code == 0
    ended = terminal.process("worker", "t", "--idle", "0")
    assert not mark.exists(), ended.err


@pytest.mark.slow
def test_an_app_does_not_let_the_folder_shadow_installed_modules(terminal: Terminal) -> None:
    mark = terminal.folder / "ran"
    (terminal.folder / "rich").mkdir()
    (terminal.folder / "rich" / "__init__.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    (terminal.folder / "own_app.py").write_text("")
    assert terminal.process("doctor", "--app", "own_app").code in (0, 1)
    assert terminal.process("ls", "--app", "own_app").code == 0
    assert not mark.exists()


@pytest.mark.parametrize("path", ["perdure.toml", "deep/perdure.toml", "Perdure.TOML"])
def test_file_tools_cannot_write_settings(path: str, work_folder: Path) -> None:
    (work_folder / "deep").mkdir()
    with pytest.raises(NotDone, match="protected"):
        do("write_file", {"path": path, "content": HOSTILE, "before": None})
    assert not (work_folder / path).exists()


def test_settings_that_a_command_made_are_renamed(work_folder: Path) -> None:
    need_bubblewrap()
    (work_folder / "kept").mkdir()
    said = do("run_command", {"command": "echo 'app = \"x\"' > perdure.toml; echo done", "timeout": 60}, key=new_uid())
    assert "done" in said.text
    assert UNTRUSTED in said.text
    assert [(work_folder / name).exists() for name in ("perdure.toml", UNTRUSTED)] == [False, True]


def test_a_command_cannot_change_settings(work_folder: Path) -> None:
    need_bubblewrap()
    (work_folder / "kept").mkdir()
    (work_folder / "perdure.toml").write_text("connections = 3\n")
    do(
        "run_command",
        {"command": "echo 'app = \"x\"' > perdure.toml; rm -f perdure.toml", "timeout": 60},
        key=new_uid(),
    )
    assert (work_folder / "perdure.toml").read_text() == "connections = 3\n"
