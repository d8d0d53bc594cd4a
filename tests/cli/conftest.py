"""A terminal, standing in an empty folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.terminal import Terminal, clean_environment


@pytest.fixture
def terminal(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    clean_environment(monkeypatch, folder)
    monkeypatch.setenv("PERDURE_STORE", str(folder / "perdure.db"))
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    return Terminal(folder, capsys)
