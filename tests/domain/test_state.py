"""Time travel: what the rows said, from the log alone."""

from typing import Any

import msgspec

from perdure.domain.state import KEYS, fold, row_name


class Line(msgspec.Struct):
    """As much of an event as folding looks at."""

    number: int
    body: Any
    at: int = 0


def test_rows_are_laid_over_each_other_in_order() -> None:
    state = fold(
        [
            Line(1, {"rows": {"session": {"status": "ready", "title": "a"}}}, at=10),
            Line(2, {"rows": {"task": [{"id": "t", "state": "open", "note": None}]}}, at=20),
            Line(3, {"text": "nothing changed"}, at=30),
            Line(4, {"rows": {"session": {"status": "done"}, "task": [{"id": "t", "state": "done"}]}}, at=40),
        ]
    )
    assert state.number == 4
    assert state.session == {"status": "done", "title": "a", "cursor": 4, "updated_at": 40}
    assert state.tasks == {"t": {"id": "t", "state": "done", "note": None}}


def test_what_was_forgotten_is_not_there_until_it_is_known_again() -> None:
    known = {"scope": "s", "key": "k", "value": 1, "verify": "look"}
    gone = {"scope": "s", "key": "k", "forgotten": True}
    again = {"scope": "s", "key": "k", "value": 2}
    lines = [Line(n, {"rows": {"fact": [row]}}) for n, row in enumerate([known, gone, again], 1)]
    assert [list(fold(lines[:n]).facts.values()) for n in (1, 2, 3)] == [[known], [], [again]]


def test_two_facts_are_never_confused() -> None:
    one, two = {"scope": "a/b", "key": "c"}, {"scope": "a", "key": "b/c"}
    assert row_name(KEYS["fact"], one) != row_name(KEYS["fact"], two)
    assert len(fold([Line(1, {"rows": {"fact": [one, two]}})]).facts) == 2


def test_an_erased_event_changes_nothing() -> None:
    assert fold([Line(1, {"rows": {"session": {"id": "s"}}}, at=1), Line(2, None, at=2)]).session == {
        "id": "s",
        "cursor": 2,
        "updated_at": 2,
    }


def test_the_state_before_the_first_event_is_empty() -> None:
    assert fold([]).number == 0
    assert fold([]).session == {}
