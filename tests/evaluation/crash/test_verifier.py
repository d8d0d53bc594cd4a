"""The verifier of the crash workload, against raw files written by hand, whose truth is known."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure.evaluation.catalogue import VERIFIERS, WORKLOADS, verifier_of

Line = dict[str, Any]


def posted(n: int, *, key: str | None = None, marker: str | None = None, fault: str = "none") -> Line:
    return {"what": "posted", "id": f"i{n}", "path": "effects", "key": key, "marker": marker, "body": {"n": n},
            "fault": fault}  # fmt: skip


def kept(n: int) -> Line:
    return {"what": "kept", "id": f"i{n}", "path": "effects", "body": {"n": n}}


def looked(key: str | None = None) -> Line:
    return {"what": "looked", "path": "effects", "query": {"key": key} if key else {}, "found": 0}


def deleted(*ids: str, key: str) -> Line:
    return {"what": "deleted", "path": "effects", "query": {"key": key}, "ids": list(ids)}


def process(ended: str, log: int, *asked: int, state: str = "", said: Line | None = None, **more: Any) -> Line:
    return {"ended": ended, "asked": list(asked), "verdicts": {}, "log": log, "state": state, "said": said or {}} | more


def write(folder: Path, trial: str, log: list[Line], processes: list[Line], **parameters: Any) -> None:
    home = folder / trial
    home.mkdir()
    given = {"ability": "nothing", "kill": "none"} | parameters
    text = {"trial": trial, "system": "blob/file/x/fsync", "parameters": given}
    (home / "trial.json").write_text(json.dumps(text))
    for name, lines in (("sink", log), ("processes", processes)):
        (home / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def verify(folder: Path) -> dict[str, Line]:
    command = [sys.executable, "-I", "-S", str(verifier_of("crash")), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {line["trial"]: line for line in map(json.loads, done.stdout.splitlines())}


def verdicts(folder: Path, log: list[Line], processes: list[Line], **parameters: Any) -> Line:
    write(folder, "one", log, processes, **parameters)
    found: Line = verify(folder)["one"]["verdicts"]
    return {name: number for name, number in found.items() if number and name not in ("wanted", "processes")}


ALL = [posted(1), kept(1), posted(2), kept(2), posted(3), kept(3)]
DONE = [process("done", 6)]


def test_correct_trial_has_no_other_verdict(folder: Path) -> None:
    assert verdicts(folder, ALL, DONE) == {"happened": 3}


def test_repeated_effect_is_doubled_and_blind(folder: Path) -> None:
    log = [*ALL[:4], posted(2), kept(2), *ALL[4:]]
    assert verdicts(folder, log, DONE) == {"happened": 3, "doubled": 1, "blind": 1}


def test_repeat_of_what_never_landed_is_blind_and_not_doubled(folder: Path) -> None:
    assert verdicts(folder, [*ALL[:3], *ALL[2:]], DONE) == {"happened": 3, "blind": 1}


def test_missing_effect_of_an_ended_session_is_lost(folder: Path) -> None:
    assert verdicts(folder, ALL[:4], DONE) == {"happened": 2, "lost": 1}


def test_session_that_does_not_end_is_stuck_and_loses_nothing(folder: Path) -> None:
    assert verdicts(folder, ALL[:4], [process("error", 4)]) == {"happened": 2, "stuck": 1}


def test_question_without_an_answer_is_no_stuck_session(folder: Path) -> None:
    assert verdicts(folder, ALL[:4], [process("asked", 4, 2)]) == {"happened": 2, "asked": 1}
    answered = [process("asked", 4, 2), process("asked", 4, 2, verdicts={"2": "absent"})]
    (folder / "more").mkdir()
    assert verdicts(folder / "more", ALL[:4], answered)["stuck"] == 1


@pytest.mark.parametrize(
    "evidence",
    [
        [looked("m")],
        [deleted("i2", key="m")],
        [{"what": "refused", "id": "i2", "key": None}],
        [{"what": "noted", "note": {"verdict": "absent", "n": 2}}],
    ],
)
def test_repeat_after_evidence_is_not_blind(folder: Path, evidence: list[Line]) -> None:
    first = [posted(2, marker="m"), kept(2)] if evidence[0]["what"] == "deleted" else [posted(2, marker="m")]
    log = [*ALL[:2], *first, *evidence, posted(2, marker="m"), kept(2), *ALL[4:]]
    assert "blind" not in verdicts(folder, log, DONE)


@pytest.mark.parametrize(
    "evidence", [[], [{"what": "noted", "note": {"verdict": "happened", "n": 2}}], [looked("other")]]
)
def test_repeat_without_evidence_is_blind(folder: Path, evidence: list[Line]) -> None:
    log = [
        *ALL[:2],
        posted(2, marker="m"),
        *evidence,
        posted(2, marker="m"),
        kept(2),
        *ALL[4:],
        posted(3, marker="other"),
    ]
    assert verdicts(folder, log, DONE)["blind"] >= 1


def test_look_that_found_the_effect_is_no_evidence_for_repeating(folder: Path) -> None:
    log = [*ALL[:2], posted(2, marker="m"), kept(2), looked("m"), posted(2, marker="m"), kept(2), *ALL[4:]]
    assert verdicts(folder, log, DONE) == {"happened": 3, "doubled": 1, "blind": 1}


def test_repeat_with_an_accepted_key_is_not_blind(folder: Path) -> None:
    log = [*ALL[:2], posted(2, key="k"), kept(2), posted(2, key="k"), *ALL[4:]]
    assert verdicts(folder, log, DONE) == {"happened": 3}
    (folder / "more").mkdir()
    log[4] = posted(2, key="other")
    assert verdicts(folder / "more", log, DONE)["blind"] == 1


def test_undone_effect_that_is_repeated_is_not_doubled(folder: Path) -> None:
    log = [*ALL[:2], posted(2, marker="m"), kept(2), deleted("i2", key="m"), posted(2, marker="n"), kept(2), *ALL[4:]]
    assert verdicts(folder, log, DONE, ability="undo") == {"happened": 3}


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ({"1": 1, "2": 1, "3": 1}, {"happened": 3}),
        ({"1": 1, "2": 2, "3": 1}, {"happened": 3, "doubled": 1}),
        ({"1": 1, "3": 1}, {"happened": 2, "lost": 1}),
    ],
)
def test_joint_effects_are_counted_in_the_table(folder: Path, rows: dict[str, int], found: Line) -> None:
    assert verdicts(folder, [], [process("killed", 0), process("done", 0, rows=rows)], ability="joint") == found


def test_a_look_that_was_never_made_is_a_lost_pure_effect(folder: Path) -> None:
    log = [looked("pure-1"), looked("pure-1"), looked("pure-3")]
    assert verdicts(folder, log, DONE, ability="pure") == {"happened": 2, "lost": 1}


def test_row_that_the_record_does_not_know_is_silent(folder: Path) -> None:
    killed_with = process("killed", 0, state="1 acknowledged", said={"2": "absent"}, rows={"1": 1, "2": 1})
    write(folder, "a", [], [killed_with], ability="joint", kill="between")
    assert classes(folder) == {"a": "silent"}


@pytest.mark.parametrize(
    ("ability", "said", "needless"),
    [("nothing", "unknown", 0), ("nothing", "absent", 1), ("nothing", "acknowledged", 1), ("lookup", "unknown", 1)],
)
def test_question_is_needless_if_the_answer_was_known(folder: Path, ability: str, said: str, needless: int) -> None:
    processes = [process("killed", 4, said={"2": said}), process("asked", 4, 2), process("done", 6)]
    assert verdicts(folder, ALL, processes, ability=ability).get("needless", 0) == needless


def test_trial_whose_kill_did_not_happen_is_void(folder: Path) -> None:
    write(folder, "kill", ALL, DONE, kill="sink:after")
    write(folder, "again", ALL, [process("killed", 2), process("done", 6)], kill="between", again="sink:after")
    write(folder, "fault", ALL, DONE, fault="cut")
    write(folder, "met", [posted(2, fault="cut"), *ALL], DONE, fault="cut")
    found = verify(folder)
    assert {name for name, line in found.items() if line["void"]} == {"kill", "again", "fault"}


def killed(folder: Path, name: str, state: str, said: str, *, present: bool) -> None:
    log = [*ALL[:3], kept(2)] if present else ALL[:3]
    write(folder, name, log, [process("killed", len(log), state=state, said={"2": said})], kill="sink:x")


def classes(folder: Path) -> dict[str, str]:
    return {name: line["findings"]["class"] for name, line in verify(folder).items()}


def test_state_with_two_worlds_that_looks_untouched_is_silent(folder: Path) -> None:
    killed(folder, "a", "empty", "absent", present=False)
    killed(folder, "b", "empty", "absent", present=True)
    assert classes(folder) == {"a": "silent", "b": "silent"}


def test_state_with_two_worlds_that_says_unknown_is_flagged(folder: Path) -> None:
    killed(folder, "a", "intent 2", "unknown", present=False)
    killed(folder, "b", "intent 2", "unknown", present=True)
    assert classes(folder) == {"a": "flagged", "b": "flagged"}


def test_state_with_one_world_is_known_if_it_claims_to_know(folder: Path) -> None:
    killed(folder, "a", "empty", "absent", present=False)
    killed(folder, "b", "result 2", "acknowledged", present=True)
    killed(folder, "c", "intent 2", "unknown", present=True)
    assert classes(folder) == {"a": "known", "b": "known", "c": "flagged"}


def test_untouched_state_with_an_effect_outside_is_silent_alone(folder: Path) -> None:
    killed(folder, "a", "empty", "absent", present=True)
    assert classes(folder) == {"a": "silent"}


def test_request_that_lands_after_the_kill_is_a_world_of_its_own(folder: Path) -> None:
    write(folder, "a", [*ALL[:3], kept(2)], [process("killed", 3, said={"2": "unknown"})], kill="sink:late")
    assert verify(folder)["a"]["findings"]["world"] == "in flight"


def test_every_verifier_runs_without_perdure(folder: Path) -> None:
    for name in WORKLOADS:
        assert verifier_of(name).parent == VERIFIERS
        done = subprocess.run([sys.executable, "-I", "-S", str(verifier_of(name)), str(folder)], capture_output=True)
        assert done.returncode == 0, done.stderr
    imported = subprocess.run([sys.executable, "-I", "-S", "-c", "import perdure"], capture_output=True)
    assert imported.returncode != 0
