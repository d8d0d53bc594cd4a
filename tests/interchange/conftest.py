"""Stores to export from and import into, and a sink outside both."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from perdure.runtime.runtime import Runtime
from perdure.runtime.runtime import open as open_runtime
from perdure.testing import Sink, SinkClient
from perdure.testing.sink import WHERE
from tests.interchange.support import moved_program  # noqa: F401  (programs and tools are known by being imported)


@pytest.fixture(scope="session")
def outside() -> Iterator[Sink]:
    with Sink() as running:
        yield running


@pytest.fixture
def sink(outside: Sink, monkeypatch: pytest.MonkeyPatch, folder: Path) -> SinkClient:
    """A run of the sink for this test alone."""
    run = outside.run()
    monkeypatch.setenv(WHERE, run.url)
    monkeypatch.setenv("TRAVELLER_ONCE", str(folder / "once"))
    return run


Open = Callable[[str], Runtime]


@pytest.fixture
async def opened(folder: Path) -> AsyncIterator[Open]:
    """Open stores by name: a file in the folder, or an address."""
    async with AsyncExitStack() as stack:

        def get(name: str) -> Runtime:
            place = name if ":" in name else str(folder / f"{name}.db")
            elsewhere = folder / "elsewhere" if name.startswith(("memory:", "postgresql:")) else None
            runtime = open_runtime(place, by="ada", artifacts=elsewhere)
            stack.push_async_exit(runtime)
            return runtime

        yield get
