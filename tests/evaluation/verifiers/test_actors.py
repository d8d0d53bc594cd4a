"""The checker of histories is itself checked: what one log can explain passes, and everything else is named."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.evaluation.verifiers.actors import NAMES, check, check_messages, running_digests

LIST = ["a", "", "b", "c"]


def append(value: str, called: int, returned: int, outcome: str = "ok", **more: Any) -> dict[str, Any]:
    return {
        "op": "append", "session": "s", "value": value, "called": called, "returned": returned, "outcome": outcome,
    } | more  # fmt: skip


def read(number: int, called: int, values: list[str] = LIST) -> dict[str, Any]:
    return {
        "op": "read", "session": "s", "number": number, "digest": running_digests(values)[number], "called": called,
        "returned": called + 1,
    }  # fmt: skip


ALL = [append("a", 0, 10, number=1), append("b", 20, 30), append("c", 25, 40)]
POSSIBLE = {
    "one after another": ALL,
    "side by side, in either order": [append("b", 20, 60), append("c", 15, 50), ALL[0]],
    "a read of the beginning": [*ALL, read(0, 1), read(1, 11), read(3, 31), read(4, 41)],
    "a read that overlaps an append may see it or not": [*ALL, read(3, 22), read(1, 22), read(4, 26)],
    "refused and absent": [*ALL, append("d", 50, 60, "refused")],
    "unknown and absent": [*ALL, append("d", 50, 60, "unknown")],
    "unknown and present": [*ALL[:2], append("c", 25, 40, "unknown")],
}
IMPOSSIBLE = {
    "lost": [*ALL, append("d", 50, 60)],
    "misplaced": [append("a", 0, 10, number=2), *ALL[1:]],
    "reordered": [ALL[0], append("b", 45, 50), append("c", 25, 40)],
    "stale": [*ALL, read(3, 41)],
    "torn": [*ALL, read(3, 31, ["a", "", "c"])],
    "not_refused": [*ALL[:2], append("c", 25, 40, "refused")],
}


@pytest.mark.parametrize("history", POSSIBLE.values(), ids=POSSIBLE.keys())
def test_a_possible_history_has_no_problem(history: list[dict[str, Any]]) -> None:
    assert check(history, {"s": LIST}) == {name: [] for name in NAMES}
    assert check(history[::-1], {"s": LIST}) == {name: [] for name in NAMES}


@pytest.mark.parametrize(("kind", "history"), IMPOSSIBLE.items(), ids=IMPOSSIBLE.keys())
def test_an_impossible_history_is_named(kind: str, history: list[dict[str, Any]]) -> None:
    found = check(history, {"s": LIST})
    assert [name for name, problems in found.items() if problems] == [kind]


def test_a_value_that_is_there_twice_is_named() -> None:
    found = check(ALL, {"s": [*LIST, "b"]})
    assert found["doubled"] == ["s: b at [3, 5]"]


def test_a_read_beyond_the_end_is_torn() -> None:
    assert check([read(4, 41)], {"s": LIST[:3]})["torn"]


def test_messages_are_taken_and_acted_on_once() -> None:
    sent = [append(name, 0, 1, message=True) for name in ("m1", "m2", "m3")]
    kinds = ("messages_lost", "messages_doubled", "acts_lost", "acts_doubled", "acts_invented")
    nothing: dict[str, list[str]] = {name: [] for name in kinds}
    names = ["m1", "m2", "m3"]
    assert check_messages(sent, names, names, []) == nothing
    assert check_messages(sent, names[:2], names[:2], ["s"]) == nothing
    assert check_messages(sent, names[:2], names[:2], [])["messages_lost"] == ["m3"]
    assert check_messages(sent, [*names, "m1"], names, [])["messages_doubled"] == ["m1"]
    assert check_messages(sent, names, names[1:], [])["acts_lost"] == ["m1"]
    assert check_messages(sent, names, [*names, "m2"], ["s"])["acts_doubled"] == ["m2"]
    assert check_messages(sent, names, [*names, "m9"], [])["acts_invented"] == ["m9"]
