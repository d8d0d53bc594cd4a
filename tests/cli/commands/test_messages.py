"""Messages from the command line: prompts of agents, `resume` and `send` with a text, and their attachments."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from perdure.runtime.definitions.program import PROGRAMS
from tests.cli.support.agents import AgentFolder, calls
from tests.cli.support.terminal import PERDURE

AGENT = """
from perdure import Agent, program, Session
messages_fixer = Agent("messages_fixer", model="scripted:script.json", tools=["read_file"])
"""


@pytest.fixture
def fixer(work: AgentFolder, monkeypatch: pytest.MonkeyPatch) -> AgentFolder:
    """A folder whose app defines an agent; its model answers twice."""
    work.script("First.", "Second.")
    Path("fixer_app.py").write_text(AGENT)
    monkeypatch.delitem(PROGRAMS, "messages_fixer", raising=False)
    monkeypatch.delitem(sys.modules, "fixer_app", raising=False)
    monkeypatch.setenv("PERDURE_APP", "fixer_app.py")
    return work


def prompt_of(work: AgentFolder, id: str = "one") -> str:
    return str(work.session(id)["arguments"]["prompt"])


def test_agent_of_the_app_is_started_by_name(fixer: AgentFolder) -> None:
    said = fixer("run", "messages_fixer", "fix a = b", "--id", "one", "--once")
    assert (said.code, said.out) == (0, "First.\n")
    assert (prompt_of(fixer), fixer.session()["program"]) == ("fix a = b", "messages_fixer")
    assert fixer("run", "messages_fixer", "-p", "fix", "--id", "two").code == 0
    assert fixer("run", "messages_fixer", "prompt=fix", "--id", "three").code == 0
    assert (prompt_of(fixer, "two"), prompt_of(fixer, "three")) == ("fix", "fix")
    unquoted = fixer("run", "messages_fixer", "fix", "it", "--id", "four")
    assert (unquoted.code, "perdure run messages_fixer 'fix it'" in unquoted.err) == (2, True)
    other = fixer("run", "messages_fixer", "fix it", "--tool", "edit_file")
    assert (other.code, "--tool is not for agent messages_fixer" in other.err) == (2, True)
    assert len(fixer("ls", "--json").lines) == 3


def test_mistyped_name_starts_nothing(fixer: AgentFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_MODEL", "scripted:script.json")
    for words in (["messages_fixr"], ["messages_fixr", "--model", "scripted:script.json"]):
        said = fixer("run", *words)
        assert (said.code, "Did you mean messages_fixer?" in said.err) == (2, True)
        assert "perdure run -p messages_fixr" in said.err
    assert not Path("perdure.db").exists()


def test_prompt_of_one_word_is_given_by_option(work: AgentFolder) -> None:
    begin = work.script("Done.", "Done.")
    assert work("run", "-p", "fix", *begin[2:]).code == 0
    assert prompt_of(work) == "fix"
    twice = work("run", "fix", "-p", "fix", *begin[2:])
    assert (twice.code, "given twice" in twice.err) == (2, True)
    empty = work("run", "--prompt", "", *begin[2:])
    assert (empty.code, "The prompt is empty." in empty.err) == (2, True)


def test_resume_sends_a_message_and_runs(work: AgentFolder) -> None:
    work(*work.script("First.", "Second.", "Third."))
    said = work("resume", "one", "and @a.py")
    assert (said.code, said.out.splitlines()[-2:]) == (0, ["Second.", ""])
    assert "attached: a.py, 6 bytes" in said.err
    last = work("resume", "--last", "more of it")
    assert (last.code, last.out.splitlines()[-2:]) == (0, ["Third.", ""])
    texts = [one["body"]["message"] for one in work("show", "one", "--json", "--last", "99").json["events"]
             if one["kind"] == "inbox.received"]  # fmt: skip
    assert texts[0].startswith("and @a.py\n\nThe user attached")
    assert texts[1:] == ["more of it"]


def test_unclear_message_to_resume_sends_nothing(work: AgentFolder) -> None:
    work(*work.script("First.", "Second."))
    before = work.session()["cursor"]
    wrong: list[list[str]] = [
        ["--last", "one"],
        ["--last", "one", "more"],
        ["one", "x y", "-p", "z"],
        ["one", "x y", "--plan"],
    ]
    wrong += [["one", ""], ["one", "see @src/no.py"], []]
    assert [work("resume", *words).code for words in wrong] == [2] * len(wrong)
    assert work.session()["cursor"] == before
    assert work("resume", "--last", "-p", "x").code == 0


@pytest.mark.slow
def test_piped_text_is_attached_to_a_sent_message(work: AgentFolder) -> None:
    work(*work.script("First.", "Second."))
    words = [PERDURE, "resume", "one", "look at this"]
    said = subprocess.run(words, input="7 apples", capture_output=True, text=True, timeout=180)
    assert (said.returncode, "attached: standard input, 8 bytes" in said.stderr) == (0, True)
    assert said.stdout.endswith("Second.\n\n")
    sent = subprocess.run([PERDURE, "send", "one", "-", "--json"], input="whole\ntext", capture_output=True, text=True)
    assert (sent.returncode, '"body":"whole\\ntext"' in sent.stdout) == (0, True)
    with subprocess.Popen([PERDURE, "send", "one", "more"], stdin=subprocess.PIPE, stderr=subprocess.PIPE) as open_pipe:
        assert (open_pipe.wait(60), open_pipe.stderr and open_pipe.stderr.read()) == (0, b"")  # it does not read it


@pytest.mark.slow
@pytest.mark.databases("sqlite", "postgres")
def test_send_waits_for_the_answer(work: AgentFolder, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_STORE", target)
    touch = calls("May I?", ("run_command", {"command": "touch b"}))
    assert work(*work.script("First.", "Second.", touch)).code == 0
    said = work.terminal.process("send", "one", "more", "--wait")
    assert (said.code, said.out) == (0, "Second.\n\n"), said
    asked = work.terminal.process("send", "one", "touch it", "--wait")
    assert (asked.code, "perdure approve" in asked.out) == (3, True), asked


def test_send_does_not_wait_where_no_other_process_can_run(work: AgentFolder, folder: Path) -> None:
    store = ["--store", f"files:{folder}/texts"]
    assert work(*work.script("First."), *store).code == 0
    said = work("send", "one", "more", "--wait", *store)
    assert (said.code, "perdure resume one TEXT --store" in said.err) == (2, True)
    assert "inbox.received" not in {one["kind"] for one in work("show", "one", "--json", *store).json["events"]}
