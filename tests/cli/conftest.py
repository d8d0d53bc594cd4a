"""A terminal, standing in an empty folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.support.agents import AgentFolder
from tests.cli.support.terminal import Terminal, clean_environment


@pytest.fixture
def terminal(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    clean_environment(monkeypatch, folder)
    monkeypatch.setenv("PERDURE_STORE", str(folder / "perdure.db"))
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    return Terminal(folder, capsys)


@pytest.fixture
def work(terminal: Terminal) -> Iterator[AgentFolder]:
    made = AgentFolder(terminal)
    yield made
    made.end_workers()
