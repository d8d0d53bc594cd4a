"""The chain: whatever is changed in whatever event is found; erasure is not a change of what was chained."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.event import Event, body_digest, genesis, link, verify
from perdure.errors import Damaged
from perdure.ids import encode, salt

UID = "5e55104" + "0" * 25
COLUMNS = Event.columns()
Row = tuple[Any, ...]

texts = st.text('aé\0"漢\U0001f600', max_size=4)
bodies = st.dictionaries(texts, st.none() | texts | st.lists(st.integers(), max_size=2), max_size=2).map(encode)


def chained(events: list[tuple[str, str, int, str | None, str, str]]) -> list[Row]:
    """A log as the store writes it."""
    rows, chain = [], genesis(UID)
    for number, (kind, actor, at, effect_id, move_id, body) in enumerate(events, 1):
        grain = salt()
        digest = body_digest(grain, body)
        chain = link(chain, number, kind, actor, at, effect_id, move_id, digest)
        rows.append((UID, number, kind, actor, at, effect_id, move_id, body, grain, digest, chain))
    return rows


logs = st.lists(
    st.tuples(texts, texts, st.integers(0, 2**62), st.none() | texts, texts, bodies), min_size=1, max_size=5
).map(chained)


def erased(row: Row) -> Row:
    return (*row[:7], None, None, *row[9:])


def changed(column: str, old: Any, drawn: str) -> Any:
    if column in ("number", "at"):
        return old + 1 + len(drawn)
    return drawn if drawn != old else f"{drawn}x"


@given(logs)
def test_a_log_as_written_verifies(rows: list[Row]) -> None:
    assert verify(UID, rows) == rows[-1][-1]
    half = len(rows) // 2
    middle = verify(UID, rows[:half])
    assert verify(UID, rows[half:], previous=middle, after=half) == rows[-1][-1]


@given(logs, st.data())
def test_a_change_of_any_field_of_any_event_is_found(rows: list[Row], data: st.DataObject) -> None:
    place, drawn = data.draw(st.integers(0, len(rows) - 1)), data.draw(texts)
    for index, column in enumerate(COLUMNS):
        old = rows[place][index]
        others = [changed(column, old, drawn)]
        if column in ("effect_id", "body", "salt") and old is not None:
            others.append(None)
        for other in others:
            row = (*rows[place][:index], other, *rows[place][index + 1 :])
            with pytest.raises(Damaged):
                verify(UID, [*rows[:place], row, *rows[place + 1 :]])


@given(logs, st.integers(1, 4))
def test_nothing_moves_between_salt_and_body(rows: list[Row], characters: int) -> None:
    """Their digest is of one text, so a border that moved would leave it as it was."""
    *head, body, grain, digest, chain = rows[0]
    with pytest.raises(Damaged):
        verify(UID, [(*head, grain[-characters:] + body, grain[:-characters], digest, chain)])
    with pytest.raises(Damaged):
        verify(UID, [(*head, body[1:], grain + body[:1], digest, chain)])


@given(logs, st.data())
def test_missing_doubled_and_swapped_events_are_found(rows: list[Row], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(rows) - 1))
    missing, doubled = rows[:place] + rows[place + 1 :], rows[: place + 1] + rows[place:]
    for log in (doubled, missing[:] if place < len(rows) - 1 else None, rows[::-1] if len(rows) > 1 else None):
        if log is not None:
            with pytest.raises(Damaged):
                verify(UID, log)


@given(logs, st.data())
def test_erasure_keeps_the_chain(rows: list[Row], data: st.DataObject) -> None:
    places = data.draw(st.sets(st.integers(0, len(rows) - 1)))
    after = [erased(row) if place in places else row for place, row in enumerate(rows)]
    assert verify(UID, after) == rows[-1][-1]


@given(logs, st.data())
def test_an_erased_body_cannot_be_replaced_by_another(rows: list[Row], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(rows) - 1))
    row = (*rows[place][:7], data.draw(bodies), salt(), *rows[place][9:])
    with pytest.raises(Damaged):
        verify(UID, [*rows[:place], row, *rows[place + 1 :]])


def test_a_log_is_bound_to_its_session() -> None:
    rows = chained([("note", "ada", 1, None, "m", "{}")])
    other = "0" * 32
    with pytest.raises(Damaged):
        verify(other, rows)
    with pytest.raises(Damaged):
        verify(other, [(other, *row[1:]) for row in rows])


def test_the_place_of_the_damage_is_named() -> None:
    rows = chained([("note", "ada", 1, None, "m", "{}")] * 3)
    rows[1] = (*rows[1][:3], "eve", *rows[1][4:])
    with pytest.raises(Damaged, match=f"session {UID}, event 2"):
        verify(UID, rows)
