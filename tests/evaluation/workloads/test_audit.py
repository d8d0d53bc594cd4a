"""The workload `audit`: answers are the truth, and their cost does not grow where that of the blob does."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from perdure.evaluation import services
from perdure.evaluation.audit.facts import QUESTIONS
from perdure.evaluation.audit.report import BLOB, FILES, MEASURED, PLANTED, POSTGRES, RESULTS_ONLY, SQLITE
from perdure.evaluation.report.model import Cell, Tone
from perdure.evaluation.verifiers.audit import verify
from perdure.evaluation.workload import Form, Result, Trial
from perdure.evaluation.workloads.audit import LONGEST_FILES, AuditWorkload
from tests.evaluation.voided import with_a_void_trial


def measured(home: Path, system: str, lengths: list[int]) -> Result:
    folder = home / "raw" / "audit" / system.replace("/", "-")
    folder.mkdir(parents=True)
    with services.running():
        result = AuditWorkload().run(Trial(id="t1", system=system, parameters={"round": 0, "lengths": lengths}), folder)
    return msgspec.structs.replace(result, **{name: verify(folder)[name] for name in ("verdicts", "findings")})


@pytest.mark.slow
@pytest.mark.parametrize("system", [SQLITE, pytest.param(POSTGRES, marks=pytest.mark.postgres)])
def test_answers_of_perdure_are_the_truth(folder: Path, system: str) -> None:
    found = measured(folder, system, [2_000, 6_000])
    assert found.findings == {}
    assert found.verdicts["right"] == found.verdicts["questions"] == 2 * len(QUESTIONS)
    for question in QUESTIONS:
        touched = [found.measures[f"{question}.bytes@{length}"] for length in (2_000, 6_000)]
        assert 0 < touched[1] < 2 * touched[0], question


@pytest.mark.slow
def test_a_blob_reads_its_history_and_lacks_what_no_session_has(folder: Path) -> None:
    found = measured(folder, BLOB, [2_000, 6_000])
    assert (found.findings, found.verdicts["not_answered"]) == ({}, 4)
    assert found.measures["doubts.bytes@6000"] > 2.5 * found.measures["doubts.bytes@2000"]
    assert (found.measures["doubts.rows@2000"], found.measures["doubts.rows@6000"]) == (2_000, 6_000)


@pytest.mark.slow
def test_text_files_answer_with_the_truth_and_read_everything(folder: Path) -> None:
    found = measured(folder, FILES, [2_000, 6_000])
    assert found.findings == {}
    assert found.verdicts["right"] == found.verdicts["questions"] == 2 * len(QUESTIONS)
    assert found.measures["doubts.bytes@6000"] > 2.5 * found.measures["doubts.bytes@2000"] > 0


def test_text_files_stop_before_the_longest_history() -> None:
    trials = AuditWorkload().trials(Form.FULL)
    assert {max(one.parameters["lengths"]) for one in trials if one.system == FILES} == {LONGEST_FILES}
    names = [f"{QUESTIONS[0]}.{name}" for name in ("seconds", "rows", "bytes")]
    found = [
        Result.of(one, measures={f"{name}@{n}": 1.0 for name in names for n in one.parameters["lengths"]})
        for one in trials
    ]
    verdicts = {"questions": 13, "right": 13, "wrong": 0, "not_answered": 0, "facts": 60}
    report = AuditWorkload().summarise([msgspec.structs.replace(one, verdicts=verdicts) for one in found])
    (section,) = [one for one in report.sections if one.title.startswith("Time to answer")]
    assert section.table is not None
    (row,) = [row for row in section.table.rows if row[0] == FILES]
    assert row[-1] == Cell("stopped at 100,000", Tone.MISSING)


@pytest.mark.slow
def test_a_planted_answer_without_a_row_is_found_in_each_question(folder: Path) -> None:
    found = measured(folder, PLANTED, [2_000])
    assert found.verdicts["wrong"] == found.verdicts["questions"] == len(QUESTIONS)


def results(grown: float = 1.0, wrong: int = 0, caught: bool = True) -> list[Result]:
    found = []
    for trial in AuditWorkload().trials(Form.SHORT):
        measures: dict[str, float] = {}
        for length in trial.parameters["lengths"]:
            factor = length if trial.system in (BLOB, FILES) else grown if length > 4_000 else 1.0
            measures |= {f"{one}.{name}@{length}": factor for one in QUESTIONS for name in ("seconds", "rows", "bytes")}
        missed = wrong if trial.system == SQLITE else 13 if trial.system == PLANTED and caught else 0
        verdicts = {"questions": 13, "right": 13 - missed, "wrong": missed, "not_answered": 0, "facts": 60}
        found.append(msgspec.structs.replace(Result.of(trial, measures=measures), verdicts=verdicts))
    return found


def test_a_wrong_answer_or_a_growing_cost_refutes_the_claim() -> None:
    assert all(one.holds for one in AuditWorkload().summarise(results()).hypotheses)
    assert [one.holds for one in AuditWorkload().summarise(results(wrong=1)).hypotheses] == [False, True, True]
    assert [one.holds for one in AuditWorkload().summarise(results(grown=2.1)).hypotheses] == [True, False, False]


def test_a_planted_answer_that_is_not_found_makes_the_run_void() -> None:
    assert not AuditWorkload().summarise(results()).is_void
    assert AuditWorkload().summarise(results(caught=False)).is_void


@pytest.mark.parametrize("system", [PLANTED, BLOB])
def test_a_void_trial_of_a_control_makes_the_run_void(system: str) -> None:
    assert AuditWorkload().summarise(with_a_void_trial(results(), system)).is_void


@pytest.mark.parametrize("form", Form)
def test_every_round_asks_every_system_once(form: Form) -> None:
    trials = AuditWorkload().trials(form)
    for number in range(5):
        systems = [one.system for one in trials if one.parameters["round"] == number]
        assert sorted({*systems} - {RESULTS_ONLY, PLANTED}) == sorted(MEASURED)
        assert len(systems) == len({*systems})
