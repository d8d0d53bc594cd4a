"""Records: the columns of their table, decoded where they hold JSON."""

import pytest

from perdure.domain.fact import Fact
from perdure.domain.record import check_columns, same_json
from perdure.domain.task import Task
from perdure.errors import ConfigError
from perdure.store.statements import RECORDS


def test_json_columns_arrive_decoded_and_others_as_they_are() -> None:
    row = ("s", "[1]", '{"a": [null, true]}', 1, '"quoted"', None, "ada", 1, 1, None)
    known = Fact.from_row(row)
    assert (known.key, known.value, known.verify) == ("[1]", {"a": [None, True]}, '"quoted"')
    assert known.to_dict()["value"] == {"a": [None, True]}


def test_columns_that_hold_json_are_columns() -> None:
    assert [name for name, record in RECORDS.items() if not record.json_columns <= set(record.columns())] == []


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ([1, 2], (1, 2), True),
        (1, True, False),
        (0, False, False),
        ({"a": [1]}, {"a": [True]}, False),
        (None, False, False),
        ("1", 1, False),
    ],
)
def test_the_same_json_is_the_same_json(one: object, other: object, same: bool) -> None:
    assert same_json(one, other) is same


def test_a_change_names_columns_that_may_change_and_what_they_can_hold() -> None:
    changeable = frozenset({"title", "priority", "note"})
    check_columns(Task, {"title": "x", "priority": -3, "note": None}, changeable)
    for wrong in ({"id": "t"}, {"title": None}, {"priority": 1.5}, {"priority": 2**63}, {"note": "a\0b"}):
        with pytest.raises(ConfigError, match=r"task"):
            check_columns(Task, wrong, changeable)
