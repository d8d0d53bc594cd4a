"""The time of a database server, as this machine knows it."""

from __future__ import annotations

import pytest

from perdure.clock import QUICK, SECOND, ServerClock, boot_time

AHEAD = 1_000_000 * SECOND  # how far the server's clock is ahead of this machine's boot clock


def measured(clock: ServerClock, *, asked: int, read: int, answered: int) -> None:
    """A measurement whose question was sent, read and answered at these times of the boot clock."""
    clock.measured(asked=asked, server=read + AHEAD, answered=answered)


def error(clock: ServerClock) -> int:
    return clock.now() - boot_time() - AHEAD


@pytest.fixture
def clock() -> ServerClock:
    clock = ServerClock()
    at = boot_time()
    measured(clock, asked=at, read=at + 10, answered=at + 20)
    return clock


@pytest.mark.parametrize("read", [0, 10, 20])
def test_a_stalled_measurement_does_not_move_a_good_one(clock: ServerClock, read: int) -> None:
    at = boot_time()
    measured(clock, asked=at, read=at + read * SECOND, answered=at + 20 * SECOND)
    assert abs(error(clock)) < SECOND // 10


def test_a_stalled_first_measurement_is_wrong_by_no_more_than_the_stall() -> None:
    clock, at = ServerClock(), boot_time()
    measured(clock, asked=at, read=at + SECOND, answered=at + 20 * SECOND)
    assert abs(error(clock)) <= 20 * SECOND


def test_a_stalled_measurement_is_repeated_soon(clock: ServerClock) -> None:
    at = boot_time() - 30 * SECOND
    measured(clock, asked=at, read=at, answered=at + SECOND)
    assert clock.is_due()
    measured(clock, asked=at, read=at, answered=at + 10)
    assert not clock.is_due()


def test_a_quick_measurement_follows_a_server_whose_time_was_set(clock: ServerClock) -> None:
    at = boot_time()
    clock.measured(asked=at, server=at + AHEAD - 3600 * SECOND, answered=at + QUICK)
    assert abs(error(clock) + 3600 * SECOND) <= QUICK
