"""Log messages on the command line: standard error, from a level on, and never what a session works with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

APP = """
from perdure import program, tool

@tool(replay="idempotent")
def post(text: str) -> str:
    if text.endswith("fail"):
        raise ValueError(text)
    return text

@program
async def talk(s, text: str) -> str:
    return await s.do(post, text=text)
"""
CONFIGURED = "import logging\nlogging.basicConfig(format='own: %(message)s')\n"
SECRET = "hunter2"


def perdure(folder: Path, *words: str, level: str | None = None, app: str = APP) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own: in this one, pytest has configured logging."""
    (folder / "app.py").write_text(app)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    environment |= {"XDG_CONFIG_HOME": str(folder)} | ({} if level is None else {"PERDURE_LOG": level})
    command = [sys.executable, "-m", "perdure", *words, "--store", "some.db", "--app", "app.py"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_log_is_silent_without_a_warning(tmp_path: Path) -> None:
    ended = perdure(tmp_path, "run", "talk", "text=hello", "--id", "one")
    assert (ended.returncode, ended.stderr) == (0, "session one\n")


def test_verbose_shows_the_run(tmp_path: Path) -> None:
    said = perdure(tmp_path, "run", "talk", "text=hello", "--verbose").stderr
    assert "INFO perdure.runtime" in said
    assert "DEBUG" not in said
    assert "the session is done" in said


@pytest.mark.parametrize("text", [SECRET, f"{SECRET} fail"])
def test_debug_level_shows_attempts_but_no_values(tmp_path: Path, text: str) -> None:
    said = perdure(tmp_path, "run", "talk", f"text={text}", "--json", level="debug").stderr
    logged = [json.loads(line)["log"] for line in said.splitlines() if line.startswith('{"log"')]
    assert {one["level"] for one in logged} >= {"debug", "info"}
    assert any("attempt 1 begins" in one["message"] for one in logged)
    assert [one for one in logged if SECRET in str(one)] == []


def test_application_that_configures_logging_gets_the_messages(tmp_path: Path) -> None:
    said = perdure(tmp_path, "run", "talk", "text=hello", "--verbose", app=CONFIGURED + APP).stderr
    assert "own: Session" in said
    assert "INFO" not in said


def test_unknown_level_is_wrong_use(tmp_path: Path) -> None:
    ended = perdure(tmp_path, "ls", level="loud")
    assert ended.returncode == 2
    assert "PERDURE_LOG" in ended.stderr


def test_library_writes_nothing_unless_logging_is_configured(tmp_path: Path) -> None:
    code = "import logging, perdure.store; logging.getLogger('perdure.store.writer').error('a message')"
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ended.stderr == ""
