"""Fixtures of the agent's tests: a runtime over a store, and agents that are removed after their test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import pytest

import perdure
from perdure.runtime.definitions.program import PROGRAMS
from perdure.runtime.definitions.tool import TOOLS
from perdure.testing import Sink
from perdure.testing.postgres import PostgresServer
from perdure.testing.sweep.server_pool import ServerPool
from tests.agent.support.agent_sweep import MakeSweep, Scenario
from tests.agent.support.conversation import Conversation
from tests.memory import MEMORY


@pytest.fixture(autouse=True)
def _own_names(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test declares is forgotten with it, and it does not meet what other modules of tests declared."""
    tools, programs = dict(TOOLS), dict(PROGRAMS)
    own = {one.__name__ for one in vars(request.module).values() if isinstance(one, ModuleType)}
    for registry in (TOOLS, PROGRAMS):
        for name in [name for name, one in registry.items() if _is_foreign(one.function.__module__, own)]:
            del registry[name]
    yield
    for registry, before in ((TOOLS, tools), (PROGRAMS, programs)):
        registry.clear()
        registry.update(before)  # type: ignore[arg-type]


def _is_foreign(module: str, own: set[str]) -> bool:
    return module.startswith(("tests.", "examples.")) and module not in own


@pytest.fixture
def conversation(target: str) -> Conversation:
    return Conversation(target)


@pytest.fixture(scope="module")
def sweep_folder() -> Iterator[Path]:
    """Where the sweeps of a module put their stores, their sink, and the repositories of their trials."""
    with TemporaryDirectory(prefix="agent-", dir=MEMORY, ignore_cleanup_errors=True) as made:
        yield Path(made)


@pytest.fixture(scope="module")
def sink(sweep_folder: Path) -> Iterator[Sink]:
    (sweep_folder / "sink").mkdir()
    with Sink(sweep_folder / "sink") as running:
        yield running


@pytest.fixture(scope="module")
def make_sweep(request: pytest.FixtureRequest, sweep_folder: Path, sink: Sink) -> Iterator[MakeSweep]:
    """Makes a sweep of the `SCENARIO` of a module on a store: a folder, or the URL of a database."""
    scenario: Scenario = request.module.SCENARIO
    scenario.make_template(sweep_folder / "repositories")
    with ServerPool(scenario.module, "perdure.store.databases.postgres.database", count=3) as pool:
        yield lambda store: scenario.sweep(pool, sink, store, sweep_folder / "repositories")


@pytest.fixture
def sweep_database(postgres_server: PostgresServer) -> str:
    return postgres_server.create_database()


@pytest.fixture(params=["SQLite", pytest.param("PostgreSQL", marks=pytest.mark.postgres)])
def sweep_store(request: pytest.FixtureRequest, sweep_folder: Path) -> str | Path:
    """Where a sweep puts its stores; a test that takes it runs on both databases."""
    return sweep_folder / "stores" if request.param == "SQLite" else str(request.getfixturevalue("sweep_database"))


@asynccontextmanager
async def open_runtime(target: str, **more: Any) -> AsyncIterator[perdure.Runtime]:
    async with perdure.open(target, **more) as runtime:
        yield runtime
