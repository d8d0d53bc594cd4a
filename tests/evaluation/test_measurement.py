"""Ratios are taken within a round, so that a machine that slows down in between changes none of them."""

from __future__ import annotations

from functools import partial

from perdure.evaluation.measurement import one_round, percentile, ratios


def test_ratios_are_taken_within_a_round() -> None:
    rounds = [{"blob": 2.0, "sqlite": 1.0}, {"blob": 40.0, "sqlite": 10.0}, {"blob": 3.0, "sqlite": 1.0}]
    assert ratios(rounds, "sqlite") == {"blob": (2.0, 3.0, 4.0)}


def test_a_round_without_both_contestants_is_left_out() -> None:
    assert ratios([{"blob": 2.0}, {"sqlite": 1.0}, {"blob": 6.0, "sqlite": 2.0}], "sqlite") == {"blob": (3.0, 3.0, 3.0)}
    assert ratios([{"blob": 2.0, "sqlite": 0.0}], "sqlite") == {}


def test_contestants_take_turns_in_a_changing_order() -> None:
    order: list[str] = []

    def turn(name: str) -> float:
        order.append(name)
        return 1.0

    assert one_round([partial(turn, name) for name in "abc"], 3) == [1.0, 1.0, 1.0]
    assert "".join(order) == "abcbcacab"


def test_percentile_is_a_value_that_was_measured() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([3.0, 1.0, 2.0], 0.99) == 3.0
