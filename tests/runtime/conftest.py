"""Fixtures of the runtime's tests: a runtime on every database, with a manual clock."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest

from perdure.runtime.definitions.program import PROGRAMS
from perdure.runtime.definitions.tool import TOOLS
from perdure.testing import ManualClock
from tests.runtime.support.scripted_world import World


@pytest.fixture(autouse=True)
def _own_names(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test declares is forgotten with it, and it does not meet what other modules of tests declared."""
    tools, programs = dict(TOOLS), dict(PROGRAMS)
    for registry in (TOOLS, PROGRAMS):
        for name in [name for name, one in registry.items() if _is_foreign(one.function.__module__, request.module)]:
            del registry[name]
    yield
    for registry, before in ((TOOLS, tools), (PROGRAMS, programs)):
        registry.clear()
        registry.update(before)  # type: ignore[arg-type]


def _is_foreign(module: str, own: ModuleType) -> bool:
    if module == "perdure.runtime.calls.approval_tool":
        return False
    return module != own.__name__ and (not module.startswith("tests.runtime") or ".test_" in module)


@pytest.fixture
def world(target: str, clock: ManualClock) -> Iterator[World]:
    with World(target, clock) as opened:
        yield opened
