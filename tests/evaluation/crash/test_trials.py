"""Trials with real processes and real kills: the controls are caught, and Perdure keeps its claims."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure.evaluation import services
from perdure.evaluation.crash.plan import AGENTS, CHECKPOINT, CHECKPOINT_SEND, OWN_RULES, PLANTED
from perdure.evaluation.crash.summary import summarise
from perdure.evaluation.crash.trial import run
from perdure.evaluation.evaluate import conclude, evaluate, prepare
from perdure.evaluation.results import TrialVerdict, read_results, verify
from perdure.evaluation.workload import Form, Result, Trial
from tests.packages import need

NAIVE, INTENT, KEY = (f"blob/file/{one}/fsync" for one in ("result-only", "intent", "intent+key"))
SQLITE, FILES = "perdure/sqlite/default/full", "perdure/files/default/fsync"


@pytest.fixture
def outside() -> Iterator[None]:
    with services.running():
        yield


def judged(folder: Path, *trials: tuple[str, dict[str, Any]]) -> list[TrialVerdict]:
    """Run the trials one after another, and let the verifier judge them."""
    home = folder / "raw" / "crash"
    for number, (system, parameters) in enumerate(trials):
        own = home / f"t{number}"
        own.mkdir(parents=True)
        result = run(Trial(id=own.name, system=system, parameters=parameters, seed=number), own)
        assert result.outcome == "counted", result.reason
        (own / "trial.json").write_bytes(msgspec.json.encode(result))
    found = verify(folder, "crash")
    return [found[f"t{number}"] for number in range(len(trials))]


def wrong(verdict: TrialVerdict) -> dict[str, int]:
    assert verdict.void == ""
    names = ("doubled", "lost", "stuck", "needless", "blind", "asked")
    return {name: verdict.verdicts[name] for name in names if verdict.verdicts[name]}


@pytest.mark.usefixtures("outside")
def test_blob_with_results_only_doubles_and_is_silent(folder: Path) -> None:
    between, after = judged(
        folder,
        (NAIVE, {"ability": "nothing", "kill": "between"}),
        (NAIVE, {"ability": "nothing", "kill": "sink:after"}),
    )
    assert wrong(between) == {}
    assert wrong(after) == {"doubled": 1, "blind": 1}
    assert between.findings["class"] == after.findings["class"] == "silent"


@pytest.mark.usefixtures("outside")
def test_blob_with_an_intent_is_flagged_and_asks(folder: Path) -> None:
    found = judged(
        folder,
        *((INTENT, {"ability": "nothing", "kill": kill}) for kill in ("sink:before", "sink:after")),
        (KEY, {"ability": "key", "kill": "sink:after"}),
    )
    assert [wrong(one) for one in found] == [{"asked": 1}, {"asked": 1}, {}]
    assert [one.findings["class"] for one in found] == ["flagged"] * 3


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize(("system", "ability", "kill", "verdict"), PLANTED)
def test_planted_mistake_is_caught(folder: Path, system: str, ability: str, kill: str, verdict: str) -> None:
    (found,) = judged(folder, (system, {"ability": ability, "kill": kill, "planted": True}))
    assert wrong(found)[verdict] > 0


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize(("ability", "asked"), [("nothing", {"asked": 1}), ("key", {}), ("lookup", {}), ("undo", {})])
def test_perdure_doubles_nothing_and_asks_only_without_help(folder: Path, ability: str, asked: dict[str, int]) -> None:
    before, after = judged(
        folder,
        (SQLITE, {"ability": ability, "kill": "sink:before"}),
        (SQLITE, {"ability": ability, "kill": "sink:after"}),
    )
    assert (wrong(before), wrong(after)) == (asked, asked)
    assert before.findings["state"] == after.findings["state"]
    assert (before.findings["world"], after.findings["world"]) == ("absent", "present")
    assert before.findings["class"] == "flagged"


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize("system", [KEY, FILES])
def test_request_that_lands_after_the_kill_is_not_repeated(folder: Path, system: str) -> None:
    late, faulty = judged(
        folder,
        (system, {"ability": "undo", "kill": "sink:late"}),
        (system, {"ability": "lookup", "fault": "cut"}),
    )
    assert (wrong(late), wrong(faulty)) == ({}, {})
    assert late.findings["world"] == "in flight"


@pytest.mark.usefixtures("outside")
def test_recovery_is_killed_too(folder: Path) -> None:
    twice, point = judged(
        folder,
        (SQLITE, {"ability": "key", "kill": "sink:after", "again": "sink:after"}),
        (SQLITE, {"ability": "lookup", "kill": "point:act.before", "again": "point:probe.after"}),
    )
    assert (wrong(twice), wrong(point)) == ({}, {})
    assert (twice.verdicts["processes"], point.verdicts["processes"]) == (3, 3)


@pytest.mark.slow
@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize("ability", OWN_RULES)
def test_look_and_row_in_the_same_database_survive_kills(folder: Path, ability: str) -> None:
    found = judged(
        folder,
        (SQLITE, {"ability": ability, "kill": "between"}),
        (SQLITE, {"ability": ability, "kill": "point:commit.before"}),
        (SQLITE, {"ability": ability, "kill": "point:commit.after"}),
    )
    assert [wrong(one) for one in found] == [{}] * 3
    assert {one.verdicts["happened"] for one in found} == {3}
    assert {one.findings.get("class", "") for one in found} == ({"known"} if ability == "joint" else {""})


@pytest.mark.usefixtures("outside")
def test_tracer_kills_at_a_system_call(folder: Path) -> None:
    need("strace")
    naive, sqlite = judged(
        folder,
        (NAIVE, {"ability": "nothing", "kill": "syscall:sync:1"}),
        (SQLITE, {"ability": "nothing", "kill": "syscall:sync:1"}),
    )
    assert wrong(naive) == {"doubled": 1, "blind": 1}
    assert "doubled" not in wrong(sqlite)
    assert "blind" not in wrong(sqlite)


@pytest.mark.slow
@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize("system", AGENTS[:2])
def test_agent_is_killed_before_during_and_after_its_checkpoint(folder: Path, system: str) -> None:
    need("strace")
    syncs = (CHECKPOINT - 1, CHECKPOINT, CHECKPOINT + 1)
    found = judged(folder, *((system, {"ability": "nothing", "kill": f"syscall:sync:{n}"}) for n in syncs))
    assert [wrong(one) for one in found] == [{}] * 3
    assert [one.findings["checkpoint"] for one in found] == ["no", "yes", "yes"]
    assert [(one.findings["said"], one.findings["class"]) for one in found] == [("acknowledged", "known")] * 3


@pytest.mark.slow
@pytest.mark.usefixtures("outside")
def test_agent_asks_about_an_effect_in_doubt_and_no_other(folder: Path) -> None:
    nothing, key = judged(
        folder,
        (AGENTS[1], {"ability": "nothing", "kill": "sink:after"}),
        (AGENTS[1], {"ability": "key", "kill": "sink:after", "again": "sink:after"}),
    )
    assert (wrong(nothing), wrong(key)) == ({"asked": 1}, {})
    assert nothing.findings["class"] == key.findings["class"] == "flagged"


@pytest.mark.postgres
@pytest.mark.usefixtures("outside")
def test_agent_on_postgres_survives_a_kill_around_its_checkpoint(folder: Path) -> None:
    need("strace")
    sends = (
        CHECKPOINT_SEND - 1,
        CHECKPOINT_SEND + 5,
    )  # the later one may be within effect 3, which is then asked about
    found = judged(folder, *((AGENTS[2], {"ability": "nothing", "kill": f"syscall:send:{n}"}) for n in sends))
    assert [wrong(one) | {"asked": 0} for one in found] == [{"asked": 0}] * 2


@pytest.mark.postgres
@pytest.mark.usefixtures("outside")
def test_program_on_postgres_survives_a_kill_of_either(folder: Path) -> None:
    worker, server = judged(
        folder,
        ("perdure/postgres/default/on", {"ability": "nothing", "kill": "sink:after"}),
        ("perdure/postgres/default/on", {"ability": "key", "kill": "server:act"}),
    )
    assert wrong(worker) == {"asked": 1}
    assert wrong(server) == {}


def test_evaluation_of_one_trial_is_void_and_names_the_command(folder: Path) -> None:
    trial = "blob-result-only-nothing-sink-after.0"
    plan = prepare(folder / "out", ["crash"], Form.SHORT, 5, resume=False, only=[trial])
    made = evaluate(folder / "out", plan)
    assert (made.trials, made.counted, made.succeeded) == (1, 1, False)
    (result,) = read_results(folder / "out")
    assert result.verdicts["doubled"] == 1
    report = (folder / "out" / "report.md").read_text()
    assert f"perdure evaluate crash --seed 5 --trial {trial}" in report
    assert "Only some trials were run" in report
    assert "blob/result-only" in (folder / "out" / "report.html").read_text()
    (folder / "out" / "raw" / "crash" / trial / "sink.jsonl").write_text("")
    assert conclude(folder / "out", plan).void == 0
    assert read_results(folder / "out")[0].verdicts["doubled"] == 0


def test_summary_is_void_unless_every_control_is_caught() -> None:
    none = dict.fromkeys(("doubled", "lost", "stuck", "needless", "blind", "asked", "wanted", "happened"), 0)

    def result(system: str, **verdicts: int) -> Result:
        ability = next((one[1] for one in PLANTED if one[0] == system), "nothing")
        planted = any(one[0] == system for one in PLANTED)
        parameters = {"ability": ability, "kill": "sink:after", "planted": planted}
        findings = {"class": "silent" if system == NAIVE else "flagged", "state": "", "said": "unknown", "worlds": ""}
        return Result(trial=system, system=system, parameters=parameters, verdicts=none | verdicts, findings=findings)

    mistakes = [result(system, **{verdict: 1}) for system, _, _, verdict in PLANTED]
    assert not summarise([result(NAIVE, doubled=1), *mistakes]).is_void
    assert summarise([result(NAIVE), *mistakes]).is_void
    assert summarise([result(NAIVE, doubled=1), *mistakes[1:]]).is_void
    missing = Result(trial="x", system=NAIVE, parameters={"ability": "key", "kill": "sink:after"}, outcome="void")
    assert summarise([result(NAIVE, doubled=1), missing, *mistakes]).is_void
    refuted = summarise([result(NAIVE, doubled=1), *mistakes, result(SQLITE, doubled=1)])
    assert [one.text for one in refuted.hypotheses if not one.holds] == ["Perdure: no effect is doubled"]
