"""The public sweep: its page runs as written, its report says what it found, and a wrong rule is found out."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from perdure import ConfigError
from perdure.testing import Sink, crash_sweep
from perdure.testing.sweep.sweep import Report
from tests.ledger import naive, programs, scenes
from tests.ledger.tables import show

PAGE = Path(__file__).parents[2] / "docs/how-to/crash-sweep.md"


@pytest.mark.slow
def test_the_page_runs_as_written(tmp_path: Path) -> None:
    blocks = re.findall(r"^`(\w+\.py)`:\n\n```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert [name for name, _ in blocks] == ["greeting.py", "sweep.py"]
    for name, code in blocks:
        (tmp_path / name).write_text(code)
    wanted = {"act.before", "act.begun", "act.after", "commit.before", "commit.after"}
    assert len(wanted - positions_of_one_sweep(tmp_path)) <= 2  # which of several threads comes first is chance


def positions_of_one_sweep(folder: Path) -> set[str]:
    ended = subprocess.run([sys.executable, "sweep.py"], cwd=folder, capture_output=True, text=True, timeout=100)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    title, heads, *rows = ended.stdout.splitlines()
    assert re.match(r"greet_all: \d+ kills in [\d.]+ s", title)
    assert heads.split()[-6:] == ["duplicated", "lost", "needless", "blind", "stuck", "broken"]
    assert rows[-1].split()[0] == "all"
    return {row.split()[0] for row in rows}


@pytest.mark.slow
def test_a_tool_that_lies_about_its_rule_is_found_out(sink: Sink, tmp_path: Path) -> None:
    """It says that it is idempotent, and the service has never heard of keys."""
    report = crash_sweep(naive.greet_twice.bind("ada"), app=naive, sink=sink, store=tmp_path, lanes=2)
    assert not report.ok
    assert report.counts["duplicated"] > 0
    assert set(report.counts) <= {"duplicated", "blind"}
    assert 'hello":"ada' in report.failures[0]


@pytest.mark.slow
@pytest.mark.postgres
def test_a_sweep_on_postgres_gives_each_trial_a_session(sink: Sink, database: str) -> None:
    bound = programs.pure.bind(n=1)
    report = crash_sweep(bound, app="tests.ledger.programs", sink=sink, store=database, lanes=2)
    assert show("pure, by crash_sweep, PostgreSQL", report).ok, str(report)
    assert report.kills == report.moments - report.unreached


@pytest.mark.slow
def test_an_app_that_cannot_be_imported_is_said_so(sink: Sink, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no_such_module"):
        crash_sweep(programs.pure.bind(n=1), app="no_such_module", sink=sink, store=tmp_path)


@pytest.mark.slow
def test_a_setup_that_another_process_cannot_find_is_refused(sink: Sink, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must be a function of a module"):
        crash_sweep(programs.pure.bind(n=1), app=programs, sink=sink, store=tmp_path, setup=lambda: None, lanes=1)


def test_a_report_without_kills_is_not_ok() -> None:
    report = Report("nothing")
    assert not report.ok
    assert "0 kills" in str(report)


def test_a_report_shows_where_and_what() -> None:
    report = Report("review")
    report.add("act.after", 1, 1, {"duplicated": ["effects {} is there 1 times too often"]})
    report.add("act.before", 1, 0, {"duplicated": []})
    shown = str(report).splitlines()
    assert shown[0].startswith("review: 2 kills")
    assert shown[2].split() == ["act.after", "1", "1", "×1", "1", "0", "0", "0", "0", "0"]
    assert shown[-1] == "review, killed at act.after: duplicated: effects {} is there 1 times too often"


def test_the_environment_of_a_sweep_is_not_ours() -> None:
    assert scenes.PLANT not in os.environ
