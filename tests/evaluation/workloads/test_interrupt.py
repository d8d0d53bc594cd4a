"""The workload `interrupt`: a store of schema 7 continues, asks where it must, and a planted change is found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from perdure.evaluation import services
from perdure.evaluation.interrupt.older_store import SCHEMA, migrate_store, put_older_store, schema_of
from perdure.evaluation.verifiers.interrupt import verify
from perdure.evaluation.workload import Form, Result, Trial
from perdure.evaluation.workloads.interrupt import CHANGES, SYSTEMS, Interrupt
from tests.evaluation.voided import with_a_void_trial

SESSIONS = 24


@pytest.fixture(scope="module", autouse=True)
def _services() -> Iterator[None]:
    with services.running():
        yield


def verdicts(folder: Path, system: str, change: str) -> dict[str, int]:
    raw = folder / "raw"
    raw.mkdir()
    result = Interrupt().run(Trial(id=folder.name, system=system, parameters={"change": change}), raw)
    assert result.outcome == "counted"
    found = verify(raw)
    assert found["void"] == ""
    counts: dict[str, int] = found["verdicts"]
    return {name: counts[name] for name in ("correct", "asks", "wrong") if counts[name]}


@pytest.mark.slow
@pytest.mark.postgres
def test_sessions_of_an_older_file_continue_after_a_compatible_change(folder: Path) -> None:
    assert verdicts(folder, "perdure/sqlite/default/synced", "compatible") == {"correct": SESSIONS}


@pytest.mark.slow
@pytest.mark.postgres
def test_sessions_of_an_older_server_ask_after_an_incompatible_change(folder: Path) -> None:
    assert verdicts(folder, "perdure/postgres/default/synced", "incompatible") == {"asks": SESSIONS}


@pytest.mark.slow
@pytest.mark.postgres
def test_a_planted_change_is_wrong_for_every_session(folder: Path) -> None:
    assert verdicts(folder, "perdure/sqlite/default/synced", "planted") == {"wrong": SESSIONS}


def test_a_cursor_in_a_blob_repeats_an_effect_after_a_change(folder: Path) -> None:
    assert verdicts(folder, "blob/json/cursor/synced", "incompatible") == {"wrong": SESSIONS}


def test_a_version_in_a_blob_asks_although_the_change_fits(folder: Path) -> None:
    assert verdicts(folder, "blob/json/versioned/synced", "compatible") == {"asks": SESSIONS}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "word"), [("compatible", "correct"), ("incompatible", "asks"), ("planted", "wrong")]
)
def test_sessions_of_older_text_files_continue_like_others(folder: Path, change: str, word: str) -> None:
    assert verdicts(folder, "perdure/files/default/synced", change) == {word: SESSIONS}


@pytest.mark.parametrize("name", ["{}/store.db", "files:{}/files"])
def test_the_recorded_store_has_the_older_schema_until_it_is_migrated(folder: Path, name: str) -> None:
    address = name.format(folder)
    put_older_store(address)
    assert schema_of(address) == SCHEMA
    migrate_store(address)
    assert schema_of(address) > SCHEMA


def results(wrong: int = 0, asks: int = 0, caught: int = SESSIONS) -> list[Result]:
    found = []
    for trial in Interrupt().trials(Form.SHORT):
        counts = {f"{word}{end}": 0 for word in ("correct", "asks", "wrong") for end in ("", "_stayed", "_moved")}
        counts |= {"sessions": SESSIONS}
        if trial.parameters["change"] == "planted":
            counts["wrong"] = caught
        elif trial.parameters["change"] == "compatible" and trial.system == SYSTEMS[0]:
            counts |= {"wrong": wrong, "asks": asks}
        found.append(msgspec.structs.replace(Result.of(trial), verdicts=counts))
    return found


def test_one_wrong_or_needless_question_refutes_the_claims() -> None:
    assert [one.holds for one in Interrupt().summarise(results()).hypotheses] == [True, True]
    assert [one.holds for one in Interrupt().summarise(results(wrong=1)).hypotheses] == [False, True]
    assert [one.holds for one in Interrupt().summarise(results(asks=1)).hypotheses] == [True, False]


def test_a_planted_change_that_is_not_found_makes_the_run_void() -> None:
    assert not Interrupt().summarise(results()).is_void
    assert Interrupt().summarise(results(caught=SESSIONS - 1)).is_void


def test_a_void_trial_of_the_planted_change_makes_the_run_void() -> None:
    found = results()
    planted = [one for one in found if one.parameters["change"] == "planted"]
    others = [one for one in found if one not in planted]
    assert Interrupt().summarise([*with_a_void_trial(planted, SYSTEMS[0]), *others]).is_void


def test_every_change_is_tried_on_every_system() -> None:
    trials = Interrupt().trials(Form.SHORT)
    assert {(one.system, one.parameters["change"]) for one in trials} == {
        (system, change) for system in SYSTEMS for change in CHANGES
    }
    assert len({one.id for one in trials}) == len(trials)
