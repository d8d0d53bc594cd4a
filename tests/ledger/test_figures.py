"""The figures of the sweeps: a run with too few kills is reported, and so is a cell that was not swept."""

from collections.abc import Mapping

import pytest

from tests.figures import KILLS, POSTGRES, SERVER, missing
from tests.ledger.support.matrix import COLUMNS, DATABASES, ROWS, applies, gaps, label, matrix

ENOUGH = {
    "kills on SQLite": KILLS - POSTGRES - SERVER,
    "kills on PostgreSQL": POSTGRES,
    "kills of the server on PostgreSQL": SERVER,
}
FEW = ENOUGH["kills on SQLite"] - 1
HEADS: list[int | str] = ["the ledger", "moments", "kills"]


@pytest.mark.parametrize(
    ("counts", "lacking"),
    [
        (ENOUGH, []),
        (ENOUGH | {"kills on SQLite": FEW}, [f"{KILLS - 1:,} kills, and at least {KILLS:,} are required"]),
        (
            ENOUGH | {"kills on SQLite": 5_000, "kills on PostgreSQL": POSTGRES - 1},
            [f"{POSTGRES - 1} kills on PostgreSQL, and at least {POSTGRES} are required"],
        ),
        (
            ENOUGH | {"kills on SQLite": 5_000, "kills of the server on PostgreSQL": SERVER - 1},
            [f"{SERVER - 1} kills of the server, and at least {SERVER} are required"],
        ),
        (
            ENOUGH | {"kills on SQLite": 0, "stops on SQLite": 9_000},
            [f"{POSTGRES + SERVER} kills, and at least {KILLS} are required"],
        ),
    ],
)
def test_a_run_with_too_few_kills_is_reported(counts: Mapping[str, int], lacking: list[str]) -> None:
    assert missing(counts) == lacking


def test_a_run_without_kills_lacks_all_of_them() -> None:
    assert len(missing({})) == 3


def test_a_cell_that_was_not_swept_is_a_gap() -> None:
    cells = [(n, c, d) for n in ROWS for c in COLUMNS for d in DATABASES if applies(n, c, d)]
    swept: list[list[int | str]] = [[label(*cell), 50, 5] for cell in cells]
    rows = [HEADS, *swept]
    assert gaps(rows) == []
    assert gaps([row for row in rows if row[0] != "gated, lands late, PostgreSQL"]) == ["gated, PostgreSQL: late"]


def test_a_fault_that_cannot_happen_is_no_gap() -> None:
    heads, *lines = matrix([HEADS, ["joint, killed", 35, 35]])
    shown = {str(line[0]): dict(zip(heads[1:], line[1:], strict=True)) for line in lines}
    assert shown["pure, SQLite"] == {
        "kill": 0, "500": "-", "cut": "-", "late": "-", "stopped": 0, "lease lost": 0, "server killed": "-",
    }  # fmt: skip
    assert shown["probe, PostgreSQL"] == dict.fromkeys(COLUMNS.values(), 0)


def test_a_run_without_these_sweeps_has_no_matrix() -> None:
    assert matrix([]) == []
    assert matrix([HEADS, ["one branch, killed", 10, 10]]) == []
    assert gaps([HEADS]) == []
