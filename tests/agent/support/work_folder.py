"""Fixtures: a folder that the tools work in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.agent.files.workspace import Workspace
from perdure.artifacts.directory import Directory
from tests.agent.support.tool_calls import make_repository


@pytest.fixture
def own_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder for this test alone."""
    monkeypatch.setenv("HOME", str(folder / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (folder / "home").mkdir()
    return folder / "home"


@pytest.fixture
def work_folder(folder: Path) -> Iterator[Path]:
    """An empty folder, and this process in it."""
    root = folder / "place"
    root.mkdir()
    (folder / "outside").mkdir()
    (folder / "outside" / "secret.txt").write_text("secret\n")
    artifacts = Directory(folder / "artifacts")
    with Workspace(root, session_uid="u", artifacts=artifacts, protected=(root / "kept",)).active():
        yield root


@pytest.fixture
def repository(work_folder: Path) -> Path:
    """The same as a repository with one commit, and a remote beside it."""
    make_repository(work_folder)
    (work_folder / "kept").mkdir()  # what is protected must be there, or a hook could make it
    return work_folder
