"""The workload `growth`: bytes of a step stay the same on stores of Perdure, and grow in the whole blob."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from perdure.evaluation.crash.system import missing
from perdure.evaluation.growth.growth_cell import GrowthCell, GrowthFigures
from perdure.evaluation.growth.history_copy import HistoryShelf, run_cells
from perdure.evaluation.growth.report import ALL, CONTROL, FIGURES, PEERS, SYSTEMS
from perdure.evaluation.verifiers.growth import verify
from perdure.evaluation.workload import Form, Result, Trial
from perdure.evaluation.workloads.growth import Growth
from tests.evaluation.voided import with_a_void_trial


def measured(folder: Path, system: str, lengths: list[int]) -> dict[int, GrowthFigures]:
    shelf = HistoryShelf(folder / "histories", system)
    shelf.build(lengths)
    cells = [
        GrowthCell(system=system, address=shelf.copy(one, folder / f"copy-{one}"), messages=one, steps=3, cap=60)
        for one in lengths
    ]
    printed = run_cells(cells)
    (folder / "cells.jsonl").write_bytes(printed)
    assert verify(folder)["findings"] == {}
    return {
        one.messages: one for one in (msgspec.json.decode(line, type=GrowthFigures) for line in printed.splitlines())
    }


@pytest.mark.slow
@pytest.mark.parametrize("system", ["perdure/sqlite/compaction/synced", "perdure/files/compaction/synced"])
def test_bytes_of_a_step_do_not_grow_with_the_history(folder: Path, system: str) -> None:
    found = measured(folder, system, [100, 1000])
    assert found[1000].written < 1.2 * found[100].written
    assert found[1000].checkpoint < 2 * found[100].checkpoint


@pytest.mark.slow
@pytest.mark.parametrize("system", PEERS)
def test_conversation_of_a_peer_is_measured_where_it_is_installed(folder: Path, system: str) -> None:
    home = folder / "out" / "raw" / "growth" / "t1"
    home.mkdir(parents=True)
    given = {"round": 0, "lengths": [10, 40], "steps": 2, "cap": 60.0}
    result = Growth().run(Trial(id="t1", system=system, parameters=given), home)
    if missing(system):
        assert result.outcome == "not run"
        return
    found = verify(home)
    assert (found["findings"], found["verdicts"]["cells"]) == ({}, 2)
    assert result.measures["written@40"] > 0
    assert "fork@40" not in result.measures


def test_bytes_of_a_step_of_a_whole_blob_grow_with_it(folder: Path) -> None:
    found = measured(folder, CONTROL, [100, 1000])
    assert found[1000].written > 5 * found[100].written


def test_a_cell_beyond_the_cap_ends_the_trial(folder: Path) -> None:
    shelf = HistoryShelf(folder / "histories", CONTROL)
    shelf.build([10, 20])
    cells = [
        GrowthCell(system=CONTROL, address=shelf.copy(one, folder / f"copy-{one}"), messages=one, steps=1, cap=0)
        for one in (10, 20)
    ]
    assert len(run_cells(cells).splitlines()) == 1


def results(written: float = 1.0, reached: int = 1000) -> list[Result]:
    """Results in which the bytes of a step of Perdure grow by a factor, and the blob was measured up to a length."""
    found = []
    for trial in Growth().trials(Form.SHORT):
        measures: dict[str, float] = {}
        for length in trial.parameters["lengths"]:
            if trial.system == CONTROL and length > reached:
                continue
            measures |= {f"{name}@{length}": 1.0 for name, _, _ in FIGURES}
            grown = written if length == 1000 else 1.0
            measures[f"written@{length}"] = length * 1000.0 if trial.system == CONTROL else grown
        result = Result.of(trial, measures=measures)
        found.append(msgspec.structs.replace(result, verdicts={"lines_lost": 0, "steps_unrecorded": 0}))
    return found


def test_growth_of_the_bytes_of_a_step_refutes_the_claim() -> None:
    assert all(one.holds for one in Growth().summarise(results()).hypotheses)
    refuted = [one.text for one in Growth().summarise(results(written=1.6)).hypotheses if not one.holds]
    assert refuted == ["The bytes of a step of Perdure do not grow with the history."]


def test_a_blob_that_does_not_grow_makes_the_run_void() -> None:
    assert not Growth().summarise(results()).is_void
    flat = [
        msgspec.structs.replace(one, measures=one.measures | {"written@1000": 1000.0}) if one.system == CONTROL else one
        for one in results()
    ]
    assert Growth().summarise(flat).is_void


def test_a_void_round_of_the_control_makes_the_run_void() -> None:
    assert Growth().summarise(with_a_void_trial(results(), CONTROL)).is_void


def with_step(factors: list[float]) -> list[Result]:
    """Results in which a step of Perdure on SQLite takes longer by a factor in each round."""
    return [
        msgspec.structs.replace(one, measures=one.measures | {"step@1000": factors[one.parameters["round"]]})
        if one.system == SYSTEMS[0]
        else one
        for one in results()
    ]


def test_one_round_of_growing_bytes_refutes_and_every_round_of_growing_time() -> None:
    once = results()
    place = next(n for n, one in enumerate(once) if one.system == SYSTEMS[0])
    grown = once[place].measures | {"written@1000": 1.6}
    once[place] = msgspec.structs.replace(once[place], measures=grown)
    report = Growth().summarise(once)
    assert [one.holds for one in report.hypotheses] == [True, False, True]
    assert report.repeat == [once[place].trial]
    assert all(one.holds for one in Growth().summarise(with_step([1.6, 1.6, 1.6, 1.6, 1.0])).hypotheses)
    assert [one.holds for one in Growth().summarise(with_step([1.6] * 5)).hypotheses] == [True, True, False]


def test_a_system_that_was_stopped_says_where() -> None:
    report = Growth().summarise(results(reached=100))
    table = report.sections[0].table
    assert table is not None
    [row] = [row for row in table.rows if row[0] == CONTROL]
    assert getattr(row[-1], "text", "") == "stopped at 100"


@pytest.mark.parametrize("form", Form)
def test_every_round_measures_every_system_once(form: Form) -> None:
    trials = Growth().trials(form)
    rounds = [[one.system for one in trials if one.parameters["round"] == number] for number in range(5)]
    assert all(sorted(systems) == sorted(rounds[0]) for systems in rounds)
    assert len({systems[0] for systems in rounds}) == 5
    assert set(rounds[0]) == set(ALL) or form is Form.SHORT
