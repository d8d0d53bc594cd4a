"""When a standby has everything that was acknowledged."""

from __future__ import annotations

import pytest

from perdure.domain.writer import Acknowledgment, all_synchronous


def acknowledged(synchronous: bool, sent_at: int, acked_at: int) -> Acknowledgment:
    return Acknowledgment("store", "1/00000001", synchronous, sent_at, acked_at)


@pytest.mark.parametrize(
    ("commits", "expected"),
    [
        ([], False),
        ([(True, 1, 2)], True),
        ([(False, 1, 2)], False),
        ([(False, 1, 2), (True, 3, 4)], True),
        ([(False, 1, 3), (True, 2, 4)], False),
        ([(True, 1, 2), (False, 3, 4)], False),
        ([(False, 1, 2), (True, 3, 4), (True, 1, 2)], True),
    ],
    ids=["none", "waited", "did not wait", "covered by a later one", "side by side", "later one", "any later one"],
)
def test_a_commit_is_covered_by_a_later_synchronous_one(commits: list[tuple[bool, int, int]], expected: bool) -> None:
    assert all_synchronous([acknowledged(*one) for one in commits]) is expected
