"""The page of public names has every name with an example, and the examples run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from examples.reference import EXAMPLES, Example
from perdure.runtime.definitions.program import PROGRAMS
from perdure.runtime.definitions.tool import TOOLS
from tools import python_reference


def test_every_public_name_has_a_group_and_an_example() -> None:
    assert python_reference.ungrouped() == []
    named = {name for names in python_reference.GROUPS.values() for name in names}
    assert sorted(named - EXAMPLES.keys()) == []
    assert sorted(EXAMPLES.keys() - named) == ["PerdureError"]


@pytest.mark.parametrize("example", dict.fromkeys(EXAMPLES.values()), ids=lambda one: one.__name__)
async def test_example_does_not_raise(example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with perdure.open("memory:") as rt:
        await example(rt)


@pytest.fixture(autouse=True)
def _own_names() -> Iterator[None]:
    """What an example declares is forgotten with it, and it does not meet what modules of tests declared."""
    registries: list[dict[str, Any]] = [PROGRAMS, TOOLS]
    before = [(registry, dict(registry)) for registry in registries]
    for registry, declared in before:
        for name, one in declared.items():
            if not one.function.__module__.startswith(("perdure.", "examples.reference")):
                del registry[name]
    yield
    for registry, declared in before:
        registry.clear()
        registry.update(declared)
