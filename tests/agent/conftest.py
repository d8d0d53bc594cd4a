"""What the agent's tests begin with: a runtime over a store, and agents that are forgotten with their test."""

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
from tests.agent.talk import Talk
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
    return module.startswith("tests.") and module not in own


@pytest.fixture
def talk(target: str) -> Talk:
    return Talk(target)


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """Where a sweep happens: its stores, its sink, and the repositories of its trials."""
    from tests.agent.swept import make_template

    with TemporaryDirectory(prefix="agent-", dir=MEMORY, ignore_cleanup_errors=True) as made:
        make_template(Path(made, "repositories"))
        yield Path(made)


@pytest.fixture(scope="module")
def sink(place: Path) -> Iterator[Sink]:
    (place / "sink").mkdir()
    with Sink(place / "sink") as running:
        yield running


@asynccontextmanager
async def opened(target: str, **more: Any) -> AsyncIterator[perdure.Runtime]:
    async with perdure.open(target, **more) as runtime:
        yield runtime
