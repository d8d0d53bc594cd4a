"""A service over a store that processes open, with a token for a worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.store.store import Store, open_store
from perdure.testing import Sink
from tests.client.worker.support.moments import Interceptor
from tests.server.support.service import Service


@pytest.fixture
def real_store(target: str) -> Iterator[Store]:
    """The store with the time of this machine."""
    with open_store(target) as opened:
        yield opened


@pytest.fixture
def interceptor() -> Interceptor:
    return Interceptor()


@pytest.fixture
def work_service(
    real_store: Store, interceptor: Interceptor, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Service]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    made = Service(real_store, around=interceptor.around, requests_per_minute=1_000_000)
    yield made
    made.close()


@pytest.fixture
def token(work_service: Service) -> str:
    return work_service.token("wanda", "worker").token


@pytest.fixture(scope="session")
def sink() -> Iterator[Sink]:
    with Sink() as made:
        yield made
