"""Figures of shares, compared with published values."""

from __future__ import annotations

import pytest

from perdure.evaluation.statistics import Share, wilson


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),  # Newcombe 1998, table I, method 3
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (20, 20, 0.8389, 1.0),
    ],
)
def test_wilson_interval_has_the_published_limits(k: int, n: int, low: float, high: float) -> None:
    assert wilson(k, n) == pytest.approx((low, high), abs=5e-5)


def test_share_of_zero_is_shown_as_three_by_n() -> None:
    assert str(Share(0, 200)) == "0/200 (≤ 1.5 %)"
    assert str(Share(3, 40)) == "3/40 (2.6–19.9 %)"
    assert str(Share(0, 0)) == "0/0"


def test_impossible_share_is_refused() -> None:
    with pytest.raises(ValueError, match="is not a share"):
        wilson(3, 2)
