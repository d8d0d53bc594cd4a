"""Arguments of programs as `key=value`."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Session, program
from perdure.cli.program_arguments import bind_program


@program
async def take_arguments(s: Session, text: str, number: int = 0, any: Any = None, maybe: str | None = None) -> None: ...


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ("text=7", {"text": "7"}),  # declared as text, so it is no number
        ("text=true", {"text": "true"}),
        ('text="7"', {"text": "7"}),
        ("text=two words", {"text": "two words"}),
        ("number=7", {"number": 7}),
        ('any={"a": [1]}', {"any": {"a": [1]}}),
        ("maybe=null", {"maybe": None}),
    ],
)
def test_a_value_is_read_by_its_declared_type(given: str, arguments: dict[str, Any]) -> None:
    bound = bind_program(take_arguments, [given] if "text" in arguments else [given, "text=x"])
    assert bound.arguments.items() >= arguments.items()
