"""Numbers for each day."""

from __future__ import annotations

from datetime import date, timedelta

from perdure.console.plots.day_plot import MOST, plot
from perdure.console.text.question_group import GROUPS, OTHERS, grouped
from perdure.store.audit.questions import QUESTIONS

DAY = 86_400 * 1_000_000


def test_days_are_summed_and_empty_days_keep_their_place() -> None:
    made = plot("Cost", [(0, 3), (DAY - 1, 1), (2 * DAY, 8), ("1970-01-02", 0)], is_cost=True)
    assert made is not None
    assert [(one.day, one.value, one.height) for one in made.bars] == [
        ("1970-01-01", 4, 56.0), ("1970-01-02", 0, 0.0), ("1970-01-03", 8, 112.0),
    ]  # fmt: skip
    assert (made.most, made.total) == (8, 12)
    assert all(one.x >= 0 and one.x + one.width <= 100 for one in made.bars)


def test_of_a_long_time_the_last_days_are_drawn() -> None:
    days = [date(2026, 1, 1) + timedelta(days=nth) for nth in range(MOST + 9)]
    made = plot("x", [(day.isoformat(), 1) for day in days])
    assert made is not None
    assert (len(made.bars), made.bars[-1].day, made.total) == (MOST, days[-1].isoformat(), MOST)


def test_nothing_is_drawn_of_nothing() -> None:
    assert plot("x", []) is None
    assert plot("x", [("no day", 1), (2**80, 1)]) is None


def test_each_question_is_in_one_group() -> None:
    found = grouped(list(QUESTIONS.values()))
    assert OTHERS not in found
    assert sorted(one.name for some in found.values() for one in some) == sorted(one.name for one in QUESTIONS.values())
    assert list(found) == list(GROUPS)
