"""The reference pages agree with the code."""

from __future__ import annotations

import pytest

from perdure.cli import COMMANDS
from tests.tidy.source import text
from tools.reference import pages


@pytest.mark.parametrize("name", sorted(pages()))
def test_reference_is_current(name: str) -> None:
    assert text(f"docs/reference/{name}") == pages()[name], "run `python -m tools.reference`"


def test_every_command_is_documented() -> None:
    page = text("docs/reference/cli.md")
    assert [name for name in COMMANDS if f"## perdure {name}\n" not in page] == []
