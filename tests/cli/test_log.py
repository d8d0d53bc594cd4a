"""Log messages on the command line: standard error, from a level on, and never what a session works with."""

from __future__ import annotations

import json
import os
import re
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


def perdure(
    folder: Path, *words: str, level: str | None = None, app: str = APP, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own: in this one, pytest has configured logging."""
    (folder / "app.py").write_text(app)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    environment |= {"XDG_CONFIG_HOME": str(folder)} | ({} if level is None else {"PERDURE_LOG": level}) | more
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


def test_json_lines_name_session_effect_and_attempt(tmp_path: Path) -> None:
    said = perdure(tmp_path, "run", "talk", "text=hello", level="debug,json").stderr
    logged = [json.loads(line)["log"] for line in said.splitlines() if line.startswith('{"log"')]
    begins = [one for one in logged if "attempt 1 begins" in one["message"]]
    ends = [one for one in logged if "the session is done" in one["message"]]
    assert begins[0]["effect"].startswith("e-")
    assert begins[0]["attempt"] == "1"
    assert begins[0]["session"] == ends[0]["session"] != ""
    assert [one for one in logged if "Session" in one["message"] and "session" not in one] == []


def test_telemetry_of_two_processes_is_one_trace(tmp_path: Path) -> None:
    on = {"PERDURE_TELEMETRY": "on", "OTEL_TRACES_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "none"}
    asks = APP.replace("return await s.do(post, text=text)", "return await s.do(post, text=await s.ask('What?'))")
    first = perdure(tmp_path, "run", "talk", "text=hello", "--id", "one", "--json", level="error,json", app=asks, **on)
    assert first.returncode == 3
    assert perdure(tmp_path, "answer", "one", "hi", app=asks).returncode == 0
    second = perdure(tmp_path, "resume", "one", "--json", level="info,json", app=asks, **on)
    assert second.returncode == 0, second.stderr
    traces = [set(re.findall(r'"trace_id": "0x([0-9a-f]+)"', one.stdout)) for one in (first, second)]
    assert traces[0] == traces[1]
    assert len(traces[0]) == 1
    logged = [json.loads(line)["log"] for line in second.stderr.splitlines() if line.startswith('{"log"')]
    assert {one["trace_id"] for one in logged if "trace_id" in one} == traces[0]


@pytest.mark.parametrize(("variable", "value"), [("PERDURE_TELEMETRY", "yes"), ("OTEL_TRACES_EXPORTER", "nowhere")])
def test_unknown_telemetry_is_wrong_use(tmp_path: Path, variable: str, value: str) -> None:
    ended = perdure(tmp_path, "ls", **({"PERDURE_TELEMETRY": "on"} | {variable: value}))
    assert ended.returncode == 2
    assert variable in ended.stderr


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
