"""The history of messages: private, bounded, shared by terminals, and never in the way."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from perdure.cli.input import message_history
from perdure.cli.input.message_history import add_to_history, history_file, read_history


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


def test_history_is_private_and_keeps_rows_and_order() -> None:
    for text in ("one", "two\nrows", "two\nrows", "  ", "x" * 20_000, "ünï"):
        add_to_history(text)
    assert read_history() == ["one", "two\nrows", "ünï"]
    assert stat.S_IMODE(history_file().stat().st_mode) == 0o600


def test_history_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_history, "MOST", 3)
    for number in range(20):
        add_to_history(str(number))
    assert read_history() == ["17", "18", "19"]
    assert len(history_file().read_text().splitlines()) <= 6


def test_damaged_or_unreadable_history_is_ignored(data: Path) -> None:
    add_to_history("one")
    with history_file().open("ab") as file:
        file.write(b'{"not": "text"}\n\xff\xfe\n"cut')
    assert read_history() == ["one"]
    history_file().unlink()
    history_file().symlink_to(data / "elsewhere")
    add_to_history("two")
    assert (read_history(), (data / "elsewhere").exists()) == ([], False)
