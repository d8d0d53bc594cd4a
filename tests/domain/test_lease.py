"""Epochs, holders, and how old a fact may be."""

from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.fact import Fact, private_scope
from perdure.domain.lease import RESTORE_SHIFT, Holder, next_epoch


@given(st.lists(st.integers(0, 1), max_size=50))
def test_no_epoch_is_given_twice_whenever_the_store_is_restored(restores: list[int]) -> None:
    epoch, restored, given_out = 0, 0, []
    for restore in restores:
        if restore:
            restored, epoch = restored + 1, 0  # the rows went back to before the first acquisition
        epoch = next_epoch(epoch, restored)
        given_out.append(epoch)
    assert given_out == sorted(set(given_out))
    assert all(epoch < 2**63 for epoch in given_out)


def test_a_restore_begins_a_range_of_its_own() -> None:
    assert next_epoch(7, 0) == 8
    assert next_epoch(7, 1) == (1 << RESTORE_SHIFT) + 1
    assert next_epoch((1 << RESTORE_SHIFT) + 1, 1) == (1 << RESTORE_SHIFT) + 2


def test_a_holder_never_goes_back_to_an_earlier_head() -> None:
    holder = Holder("u", "w", "n", 1, 5, "chain-5")
    holder.advance(8, "chain-8")
    holder.advance(7, "chain-7")
    holder.advance(8, "forged")
    assert (holder.cursor, holder.chain) == (8, "chain-8")


def test_a_fact_is_stale_after_its_age_and_not_at_it() -> None:
    known = Fact("s", "k", 1, 1, None, None, "ada", 0, verified_at=100, stale_after=50)
    assert [known.is_stale(now) for now in (100, 150, 151)] == [False, False, True]
    ageless = Fact("s", "k", 1, 1, None, None, "ada", 0, verified_at=100, stale_after=None)
    assert not ageless.is_stale(2**62)


def test_a_session_has_a_scope_of_its_own() -> None:
    assert private_scope("abc") == "session:abc"
