"""Parsing of stream events, and prices of models by name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.models.prices import PRICES, count, price_of, priced
from perdure.agent.models.stream import Events

SAID = 'event: a\r\ndata: {"x":\r\ndata: 1}\r\n\r\n: quiet\n\ndata:é\u2028b\nid: 7\n\nevent: none\n\ndata: cut'.encode()


@given(st.lists(st.integers(0, len(SAID)), max_size=12))
def test_events_are_the_same_wherever_the_bytes_are_cut(cuts: list[int]) -> None:
    events = Events("a model")
    found: list[tuple[str, str]] = []
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(SAID)], strict=True):
        found.extend(events.feed(SAID[start:end]))
    assert found == [("a", '{"x":\n1}'), ("", "é\u2028b")]


@pytest.mark.parametrize("suffix", ["", "-20250929", "@20250929", "-2025-04-14", "-latest"])
def test_a_date_does_not_change_the_price(suffix: str) -> None:
    assert price_of(f"gpt-4.1{suffix}") == PRICES["gpt-4.1"]


@pytest.mark.parametrize("name", ["", "gpt-4.1-huge", "gpt-4", "my-gpt-4.1", "claude-sonnet-4-9"])
def test_a_similar_name_has_no_price(name: str) -> None:
    assert price_of(name) is None
    assert not priced(name, fresh=10).priced


def test_an_invalid_token_count_is_zero() -> None:
    assert [count(value) for value in (5, -1, True, "5", None, 1 << 60, 2.5)] == [5, 0, 0, 0, 0, 0, 0]
