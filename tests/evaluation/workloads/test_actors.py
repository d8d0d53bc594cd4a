"""The workload `actors`: stores of Perdure pass, and the blob without a lock is caught in every trial."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from perdure.evaluation.actors.conductor import conduct
from perdure.evaluation.actors.family import ActorTrial
from perdure.evaluation.report.model import Cell, Tone
from perdure.evaluation.verifiers.actors import verify
from perdure.evaluation.workload import Form, Result, Trial
from perdure.evaluation.workloads.actors import BASE, CONTROL, SYSTEMS, WRONG, Actors
from perdure.testing.postgres import PostgresServer
from tests.evaluation.voided import with_a_void_trial


def verdicts_of(target: str, folder: Path, *, lock: bool = True, together: bool = False) -> dict[str, int]:
    raw = folder / "raw"
    raw.mkdir()
    trial = ActorTrial(
        target=target, folder=str(raw), seed=3, sessions=3, messages=3, pauses=3, history=5, workers=1, lock=lock
    )
    conduct(trial, together=together)
    verdicts: dict[str, int] = verify(raw)["verdicts"]
    return verdicts


def problems(verdicts: dict[str, int]) -> dict[str, int]:
    return {name: verdicts[name] for name in WRONG if verdicts[name]}


@pytest.mark.slow
@pytest.mark.postgres
def test_no_update_of_five_processes_is_lost_on_a_server(folder: Path, postgres_server: PostgresServer) -> None:
    found = verdicts_of(url := postgres_server.create_database(), folder)
    postgres_server.drop_database(url)
    assert problems(found) == {}
    assert found["appends"] > 20


@pytest.mark.slow
def test_no_update_of_five_processes_is_lost_in_a_file(folder: Path) -> None:
    found = verdicts_of(str(folder / "store.db"), folder)
    assert problems(found) == {}
    assert found["appends"] > 20


def test_no_update_of_five_tasks_is_lost_in_text_files(folder: Path) -> None:
    assert problems(verdicts_of(f"files:{folder / 'files'}", folder, together=True)) == {}


@pytest.mark.slow
def test_a_blob_without_a_lock_loses_an_update_every_time(folder: Path) -> None:
    blobs = folder / "blobs"
    blobs.mkdir()
    assert verdicts_of(str(blobs), folder, lock=False)["lost_updates"] > 0


def results(wrong: int = 0, caught: int = 1) -> list[Result]:
    found = []
    for trial in Actors().trials(Form.SHORT):
        verdicts = dict.fromkeys((*WRONG, "lost_updates", "refused"), 0) | {"appends": 10}
        if trial.system == CONTROL:
            verdicts["lost_updates"] = caught
        if trial.system == BASE:
            verdicts |= {"lost": wrong, "lost_updates": wrong}
        measures = {"appends_per_second": 100.0, "worker.p50": 0.001, "worker.p95": 0.002, "worker.p99": 0.003}
        found.append(msgspec.structs.replace(Result.of(trial, measures=measures), verdicts=verdicts))
    return found


def test_a_control_that_is_not_caught_makes_the_run_void() -> None:
    assert not Actors().summarise(results()).is_void
    assert Actors().summarise(results(caught=0)).is_void


def test_a_void_trial_of_the_control_makes_the_run_void() -> None:
    assert Actors().summarise(with_a_void_trial(results(), CONTROL)).is_void


def test_one_lost_update_refutes_the_claim() -> None:
    [holds] = Actors().summarise(results()).hypotheses
    [refuted] = Actors().summarise(results(wrong=1)).hypotheses
    assert (holds.holds, refuted.holds) == (True, False)
    table = Actors().summarise(results(wrong=1)).sections[0].table
    assert table is not None
    assert table.rows[0][2] == Cell("5", Tone.BAD)


@pytest.mark.parametrize("form", Form)
def test_every_round_has_every_system_once(form: Form) -> None:
    trials: list[Trial] = Actors().trials(form)
    assert len({trial.id for trial in trials}) == len(trials)
    rounds: dict[tuple[int, int], list[str]] = {}
    for trial in trials:
        rounds.setdefault((trial.parameters["history"], trial.parameters["round"]), []).append(trial.system)
    assert all(sorted(systems) == sorted(SYSTEMS) for systems in rounds.values())
    assert all(sum(key[0] == history for key in rounds) == 5 for history, _ in rounds)


def test_a_system_that_cannot_run_is_named_and_not_failed() -> None:
    all_results = [
        Result.not_run(Trial(id=one.trial, system=one.system, parameters=one.parameters), "no server")
        if "postgres" in one.system
        else one
        for one in results()
    ]
    report = Actors().summarise(all_results)
    assert report.sections[0].table is not None
    assert "not run: no server" in str(report.sections[0].table.rows)
    assert report.hypotheses[0].holds
