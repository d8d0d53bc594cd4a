"""What is published is drawn from the committed results, and from nothing else."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import msgspec
import pytest

from perdure.evaluation.crash.comparison import COLUMNS, cell, comparison_table, shared
from perdure.evaluation.protocol import protocol_digest
from perdure.evaluation.report.conclusion import CHANGED, command_of
from perdure.evaluation.report.model import Cell, Tone
from perdure.evaluation.results import Plan
from perdure.evaluation.workload import Form, Result
from tools import evaluation_figures as figures


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the published runs and of README.md."""
    shutil.copytree(figures.PUBLISHED, tmp_path / "results")
    shutil.copy(figures.README, tmp_path / "README.md")
    shutil.copy(figures.PUBLISHED.parent / figures.PEERS, tmp_path)
    return tmp_path


def differences(copy: Path) -> list[str]:
    return figures.differences(copy / "results", copy / "README.md")


def test_committed_figures_are_those_of_the_committed_results() -> None:
    assert figures.differences() == [], "run python -m tools.evaluation_figures"


def test_a_changed_result_is_noticed_in_every_figure(copy: Path) -> None:
    results = figures.read_results(copy / "results" / "crash")
    changed = [
        msgspec.structs.replace(one, verdicts=one.verdicts | {"doubled": 1})
        if one.system.startswith("perdure/") and one.verdicts
        else one
        for one in results
    ]
    lines = b"".join(msgspec.json.encode(one) + b"\n" for one in changed)
    (copy / "results" / "crash" / "results.jsonl.gz").write_bytes(gzip.compress(lines))
    assert {"report.md", "worker-killed.svg", "crash-matrix.svg", "README.md"} <= set(differences(copy))


@pytest.mark.parametrize("name", ["README.md", "results/README.md", "results/crash/report.md"])
def test_a_page_that_was_changed_by_hand_is_noticed(copy: Path, name: str) -> None:
    page = copy / name
    page.write_text(page.read_text().replace("| ", "| best ", 40))
    assert differences(copy) == [page.name]


def test_a_plot_that_nothing_draws_is_noticed(copy: Path) -> None:
    (copy / "results" / "crash" / "older.svg").write_text("<svg/>")
    assert differences(copy) == ["older.svg"]


def test_published_runs_count_and_say_by_which_protocol() -> None:
    for folder in figures.published():
        found, report = figures.plan_of(folder), (folder / "report.md").read_text()
        assert found.only == []
        assert found.seed > 0
        assert "this run is void" not in report
        assert (found.protocol == protocol_digest()) == (CHANGED not in report)


def test_a_run_is_published_by_workload(copy: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    results = figures.read_results(copy / "results" / "crash")
    (run / "results.jsonl").write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in results))
    plan = Plan(workloads=["crash"], form=Form.SHORT, seed=5, protocol="p", version="1", uid="u")
    (run / "plan.json").write_bytes(msgspec.json.encode(plan))
    assert figures.publish(run, copy / "results") == [copy / "results" / "crash"]
    assert command_of(figures.plan_of(copy / "results" / "crash")) == "perdure evaluate crash --seed 5"
    assert figures.read_results(copy / "results" / "crash") == results


def trial(system: str, kill: str, *, ability: str = "nothing", **verdicts: int) -> Result:
    none = dict.fromkeys(("doubled", "lost", "stuck", "asked", "blind", "needless"), 0)
    parameters = {"ability": ability, "kill": kill}
    return Result(workload="crash", trial=f"{system}-{kill}", system=system, parameters=parameters,
                  verdicts=none | verdicts)  # fmt: skip


def test_rows_are_compared_only_where_all_were_killed() -> None:
    ours = [trial("perdure/sqlite/default/full", kill, asked=1) for kill in ("sink:before", "sink:after")]
    peer = [trial("dbos/sqlite/documented/synced", "sink:after", doubled=1)]
    found = shared([*ours, *peer], COLUMNS[0])
    assert {name: [one.parameters["kill"] for one in own] for name, own in found.items()} == {
        "perdure/sqlite": ["sink:after"],
        "dbos/sqlite": ["sink:after"],
    }


def test_a_column_has_one_ability_and_one_configuration() -> None:
    results = [
        trial("perdure/sqlite/default/full", "sink:after", asked=1),
        trial("dbos/sqlite/documented/synced", "sink:after", doubled=1),
        trial("dbos/sqlite/once/synced", "sink:after", asked=1),
        trial("dbos/sqlite/key/synced", "sink:after", ability="key"),
    ]
    rows = comparison_table(results).rows
    assert [getattr(one, "text", one) for one in rows[0]] == [
        "perdure/sqlite",
        "asked 1/1 (20.7–100.0 %)",
        *["n/a"] * 3,
    ]
    assert [getattr(one, "tone", one) for one in rows[1]] == ["dbos/sqlite", "bad", "cost", "good", "missing"]


def test_a_cell_names_every_outcome_with_its_interval() -> None:
    own = [trial("x", "sink:after", doubled=1), trial("x", "sink:before", asked=1), trial("x", "sink:late")]
    assert cell(own) == Cell("doubled 1/3 (6.1–79.2 %), asked 1/3 (6.1–79.2 %)", Tone.BAD)
