"""The list of `make mutants` fits the code: each mistake can be planted, and its tests exist."""

import pytest

from tests.tidy.source import ROOT
from tools.mutant_list import MUTANTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.name)
def test_mutant_can_be_planted(mutant: Mutant) -> None:
    assert (ROOT / "src" / "perdure" / mutant.file).read_text().count(mutant.old) == 1
    assert [test for test in mutant.tests if not (ROOT / test).exists()] == []
    assert mutant.old != mutant.new


def test_mutants_have_different_names() -> None:
    assert len({one.name for one in MUTANTS}) == len(MUTANTS)
