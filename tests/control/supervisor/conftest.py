"""A deployment on each database that several processes can use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control.supervisor.support.deployment import Deployment


@pytest.fixture
def deployment(target: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    made = Deployment(target, folder)
    yield made
    made.close()
