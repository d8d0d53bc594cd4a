"""Arguments are made from the declared types, or taken from the command line."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

import pytest

from perdure import Session, program, tool
from perdure.errors import ConfigError
from perdure.evaluation.own_tools.source_hints import hints
from perdure.evaluation.own_tools.subject import find_subjects
from tests.evaluation.own_tools.suspicious_programs import suspicious, unsuspicious

HERE = [__name__]


class Size(Enum):
    SMALL = "small"


@dataclass
class Address:
    street: str
    number: int


@tool(name="subject_typed")
def typed(
    order: int, name: str, at: datetime, size: Size, to: Address, tags: list[str], note: str | None = None
) -> None:
    pass


@tool(name="subject_open")
def open_ended(anything: Any) -> None:
    pass


@program
async def subject_program(s: Session, count: int = 3) -> int:
    return count


def test_arguments_fit_the_declared_types() -> None:
    found = {one.name: one for one in find_subjects(modules=HERE)}
    assert found["subject_typed"].arguments == {
        "order": 1, "name": "name", "at": "2026-01-02T03:04:05Z", "size": "small",
        "to": {"street": "street", "number": 1}, "tags": ["tags"],
    }  # fmt: skip
    assert found["subject_open"].arguments == {"anything": "anything"}
    assert found["subject_program"].arguments == {}
    assert not any(one.reason for one in found.values())


def test_given_arguments_replace_the_made_ones() -> None:
    found = {one.name: one for one in find_subjects(["subject_open anything='a b'"], HERE)}
    assert found["subject_open"].arguments == {"anything": "a b"}


@pytest.mark.parametrize(
    ("call", "said"), [("nothing x=1", "nothing is no tool"), ("subject_typed order=x", "do not fit"), ("", "empty")]
)
def test_a_call_that_does_not_fit_is_refused(call: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        find_subjects([call], HERE)


def test_suspicious_places_of_a_program_are_named() -> None:
    assert [one.partition(" uses ")[2].partition(" in ")[0] for one in hints(suspicious)] == [
        "the date", "a random id", "randomness", "the order of a set", "the order of a folder",
    ]  # fmt: skip
    assert hints(unsuspicious) == []
