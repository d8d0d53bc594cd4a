"""`perdure retry`."""

from __future__ import annotations

import json

from tests.cli.support.agents import AgentFolder
from tests.cli.support.terminal import PROGRAMS_FILE


def test_failed_program_runs_again_and_the_failure_names_the_command(work: AgentFolder) -> None:
    failed = work("run", "user_fails", "--id", "broken")
    assert (failed.code, "`perdure retry broken" in failed.err) == (1, True)
    again = work("retry", "broken", "--by", "grace")
    assert (again.code, "ValueError" in again.err) == (1, True)
    assert "grace started it again after its failure" in work("show", "broken").out
    assert work.session("broken")["retries"] == 1
    assert work("verify", "broken").code == 0


def test_agent_that_failed_once_answers_after_a_retry_with_another_model(work: AgentFolder) -> None:
    limit = ["--once", "--turns", "1"]
    look = {"text": "I look.", "calls": [{"name": "read_file", "arguments": {"path": "a.py"}}]}
    failed = work(*work.script(look, "Done."), *limit)
    assert (failed.code, "1 model calls were made" in failed.err) == (1, True)
    other = work.terminal.folder / "other.json"
    other.write_text(json.dumps(["", "Done by the other."]))
    wrong = work("retry", "one", "--model", "other", "--app", PROGRAMS_FILE)
    assert (wrong.code, work.session()["status"]) == (2, "failed")
    again = work("retry", "one", "--model", f"scripted:{other}", "--app", PROGRAMS_FILE)
    assert (again.code, again.out) == (0, "Done by the other.\n")
    assert work("retry", "one", "--app", PROGRAMS_FILE).code == 1
