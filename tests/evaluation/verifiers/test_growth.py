"""The verdict on growth notices a step that was timed and not recorded, and a history that lost lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perdure.evaluation.verifiers.growth import verify

CELL = {"messages": 100, "before": 108, "after": 128, "steps": 5}


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({}, []),
        ({"before": 90, "after": 110}, ["lines_lost"]),
        ({"after": 124}, ["steps_unrecorded"]),
        ({"before": 60, "after": 70}, ["lines_lost", "steps_unrecorded"]),
    ],
)
def test_a_cell_that_is_not_what_it_claims_is_named(folder: Path, change: dict[str, Any], wrong: list[str]) -> None:
    (folder / "cells.jsonl").write_text(json.dumps(CELL) + "\n" + json.dumps(CELL | change) + "\n")
    found = verify(folder)
    assert sorted(found["findings"]) == wrong
    assert [name for name, count in found["verdicts"].items() if count and name != "cells"] == wrong


def test_a_trial_without_a_cell_is_void(folder: Path) -> None:
    (folder / "cells.jsonl").write_text("")
    assert verify(folder)["void"]
