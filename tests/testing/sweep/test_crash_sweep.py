"""The public crash sweep: its documentation runs as written, its report is readable, and a wrong rule is caught."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import perdure
from perdure import ConfigError, Session, program
from perdure.testing import Sink, crash_sweep
from perdure.testing.postgres import PostgresServer
from perdure.testing.sweep.ledger_audit import audit
from perdure.testing.sweep.report import Report
from perdure.testing.sweep.server_pool import ServerPool, TrialServers
from perdure.testing.sweep.sweep import Sweep, TrialContext
from perdure.testing.sweep.trial import answer, run_to_end
from tests.ledger.support import process_setup, programs, unkeyed_program
from tests.ledger.support.figures import show

PAGE = Path(__file__).parents[3] / "docs/how-to/crash-sweep.md"


@pytest.mark.slow
def test_the_documentation_runs_as_written(tmp_path: Path) -> None:
    blocks = re.findall(r"^`(\w+\.py)`:\n\n```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert [name for name, _ in blocks] == ["greeting.py", "sweep.py"]
    for name, code in blocks:
        (tmp_path / name).write_text(code)
    wanted = {"act.before", "act.begun", "act.after", "commit.before", "commit.after"}
    assert len(wanted - labels_of_one_sweep(tmp_path)) <= 2  # threads may reach points in another order


def labels_of_one_sweep(folder: Path) -> set[str]:
    ended = subprocess.run([sys.executable, "sweep.py"], cwd=folder, capture_output=True, text=True, timeout=100)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    title, heads, *rows = ended.stdout.splitlines()
    assert re.match(r"greet_all: \d+ kills in [\d.]+ s", title)
    assert heads.split()[-6:] == ["duplicated", "lost", "needless", "blind", "stuck", "broken"]
    assert rows[-1].split()[0] == "all"
    return {row.split()[0] for row in rows}


@pytest.mark.slow
def test_a_tool_with_a_wrong_rule_is_caught(sink: Sink, tmp_path: Path) -> None:
    """It is declared idempotent, and the service does not know keys."""
    report = crash_sweep(
        unkeyed_program.greet_twice.bind("ada"), app=unkeyed_program, sink=sink, store=tmp_path, lanes=2
    )
    assert not report.ok
    assert report.counts["duplicated"] > 0
    assert set(report.counts) <= {"duplicated", "blind"}
    assert 'hello":"ada' in report.failures[0]


@pytest.mark.slow
@pytest.mark.postgres
def test_each_trial_on_postgres_is_a_session_of_its_own(sink: Sink, postgres_server: PostgresServer) -> None:
    bound = programs.pure.bind(n=1)
    report = crash_sweep(
        bound, app="tests.ledger.support.programs", sink=sink, store=postgres_server.create_database(), lanes=2
    )
    assert show("pure, by crash_sweep, PostgreSQL", report).ok, str(report)
    assert report.kills == report.moments - report.unreached


@pytest.mark.slow
def test_an_app_that_cannot_be_imported_is_an_error(sink: Sink, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no_such_module"):
        crash_sweep(programs.pure.bind(n=1), app="no_such_module", sink=sink, store=tmp_path)


@pytest.mark.slow
def test_a_setup_that_other_processes_cannot_find_is_refused(sink: Sink, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must be a function of a module"):
        crash_sweep(programs.pure.bind(n=1), app=programs, sink=sink, store=tmp_path, setup=lambda: None, lanes=1)


@pytest.mark.slow
def test_a_process_killed_from_outside_at_its_start_leaves_a_whole_store(sink: Sink, tmp_path: Path) -> None:
    """A run that was interrupted reported a damaged file: a process had died while it copied the empty store."""
    with ServerPool(programs, count=1) as pool:
        sweep = Sweep(pool, programs.pure.bind(n=1), sink, tmp_path)
        sweep.prepare()

        def kill_at_start(servers: TrialServers) -> str | None:
            with TrialContext(sweep) as context:
                (copy,) = tmp_path.glob("trial-*/perdure.db")
                whole = copy.read_bytes() == Path(sweep.template or "", copy.name).read_bytes()
                process = context.begin(servers.forking)
                os.kill(process.pid, signal.SIGKILL)
                assert (whole, process.wait().killed) == (True, True)
                return context.run(servers.forking).error

        assert pool.each([kill_at_start]) == [None]


def test_a_report_without_kills_is_not_ok() -> None:
    report = Report("nothing")
    assert not report.ok
    assert "0 kills" in str(report)


def test_a_report_shows_where_and_what_was_found() -> None:
    report = Report("review")
    report.add("act.after", 1, 1, {"duplicated": ["effects {} is there 1 times too often"]})
    report.add("act.before", 1, 0, {"duplicated": []})
    shown = str(report).splitlines()
    assert shown[0].startswith("review: 2 kills")
    assert shown[2].split() == ["act.after", "1", "1", "×1", "1", "0", "0", "0", "0", "0"]
    assert shown[-1] == "review, killed at act.after: duplicated: effects {} is there 1 times too often"


def test_the_environment_of_a_sweep_is_not_set_here() -> None:
    assert process_setup.PLANT not in os.environ


@program
async def timed_questions(s: Session) -> list[str]:
    await s.sleep("1ms")
    answers = [await s.ask("Which?", choices=["a", "b"], timeout="1h") for _ in range(2)]
    try:
        await s.receive(timeout="1ms")
    except TimeoutError:
        answers.append("none")
    return answers


async def test_questions_with_a_time_limit_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_SINK", "http://127.0.0.1:1/main")
    async with perdure.open("memory:") as runtime:
        session = await runtime.start(timed_questions.bind())
        ended = await run_to_end(runtime, session.id, answer)
        assert ended.result == ["a", "a", "none"]
        found = await runtime.store.read(audit, [ended.uid])
    assert found["waits"] == {"timer": 1, "input": 2}  # how often a program waits for a message is chance
