"""A service in front of the store of a test, in this process or in processes of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from perdure.store.store import Store
from tests.control.supervisor.support.deployment import Deployment
from tests.server.support import programs  # noqa: F401  (registered before a test runs)
from tests.server.support.service import OWNER, Service


@pytest.fixture
def deployment(target: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    made = Deployment(target, folder)
    yield made
    made.close()


@pytest.fixture
def service(store: Store) -> Iterator[Service]:
    made = Service(store)
    yield made
    made.close()


@pytest.fixture
def owner(service: Service) -> httpx.Client:
    return service.client(OWNER)
