"""An agent without a terminal: the output and the exit code."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from perdure.cli import attachments
from perdure.cli.shell import Shell
from perdure.errors import ConfigError
from tests.agent.support.raw_server import RawServer
from tests.cli.support.agents import AgentFolder, calls
from tests.cli.support.terminal import PERDURE, PROGRAMS_FILE

TOUCH = ("run_command", {"command": "touch b"})


def test_only_the_answer_is_printed(work: AgentFolder) -> None:
    look = calls("I look.", ("read_file", {"path": "a.py"}), usage={"tokens_in": 9, "cost_micros": 120_000})
    said = work(*work.script(look, "It holds\nx = 1."))
    assert (said.code, said.out) == (0, "It holds\nx = 1.\n\n")
    assert said.err == f"session one\nRun `perdure resume one TEXT --app {PROGRAMS_FILE}` to send the next message.\n"
    again = work("resume", "one")
    assert (again.code, again.out.splitlines()[-3:]) == (0, ["It holds", "x = 1.", ""])


@pytest.mark.slow
def test_once_ends_with_the_answer_to_a_piped_prompt(work: AgentFolder) -> None:
    begin = work.script("Done.")
    piped = [PERDURE, "run", *begin[2:], "--once"]
    said = subprocess.run(piped, input="change\nx", capture_output=True, text=True, timeout=180)
    assert (said.returncode, said.stdout, said.stderr) == (0, "Done.\n", "session one\n")
    found = work.session()
    assert (found["status"], found["title"], found["arguments"]["prompt"]) == ("done", "change", "change\nx")


def test_named_image_is_sent_and_mentioned(work: AgentFolder) -> None:
    (work.folder / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    _, _, *rest = work.script("A dot.")
    said = work("run", "what is in @dot.png?", *rest)
    assert (said.code, said.out) == (0, "A dot.\n\n")
    assert "attached: dot.png, 108 bytes" in said.err
    assert work.session()["title"] == "what is in @dot.png?"
    mention = "[attached: dot.png, image/png, 1 KiB]"
    assert mention in work("show", "one").out
    assert mention in work("brief", "one").out
    assert "image/png" in work("artifacts", "ls", "one").out


def test_pending_approval_exits_with_3_and_shows_what_to_type(work: AgentFolder) -> None:
    said = work(*work.script(calls("May I?", TOUCH), "Done."))
    wait = work.terminal.wait_of("one")
    assert said.code == 3
    assert "Session one waits for a person.\n" in said.out
    assert f'run_command(command="touch b", timeout=120)\n    perdure approve {wait}\n' in said.out


def test_control_characters_in_an_answer_are_escaped_in_a_pipe(work: AgentFolder) -> None:
    said = work(*work.script("a\x1b[2Jb\x07\tc\u202e"))
    assert said.out == "a\\x1b[2Jb\\x07\tc\\u202e\n\n"


def test_prompt_without_a_model_shows_what_to_type(work: AgentFolder) -> None:
    said = work("run", "fix the test")
    assert (said.code, "--model anthropic:" in said.err) == (2, True)


def test_list_has_title_and_cost_and_is_searched(work: AgentFolder) -> None:
    used = {"tokens_in": 5, "tokens_out": 5, "cost_micros": 120_000}
    begin = work.script({"text": "Done.", "usage": used})
    work(*begin, "--title", "The \x1b[2J answer")
    work(*[word if word != "one" else "other" for word in begin])
    heading, *rows = work("ls").out.splitlines()[:3]
    assert heading.replace("waits for", "waits").split() == [
        "session", "title", "program", "status", "waits", "since", "age", "cost", "owner",
    ]  # fmt: skip
    assert ["$0.12" in row for row in rows] == [True, True]
    assert "The \\x1b[2J answer" in rows[1]
    for text, ids in (("ANSWER", ["one"]), ("change x", ["other", "one"]), ("othe", ["other"]), ("nothing", [])):
        assert [one["id"] for one in work("ls", "--search", text, "--json").lines] == ids
    assert work("ls", "--search", "nothing").out == "No session matches.\n"
    assert "These are the first" in work("ls", "--search", "change", "--limit", "1").out


FAILURES = {
    401: "rejected the key. Set OPENAI_API_KEY to a valid key.",
    402: "has no credit left. Add credit, or choose another model.",
    404: "was not found. Check the model's name, and the address if you gave one.",
}


@pytest.mark.slow
@pytest.mark.parametrize("status", FAILURES)
def test_model_failure_is_shown_everywhere(work: AgentFolder, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "wrong")
    with RawServer() as server:
        server.says = f"HTTP/1.1 {status} No\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}".encode()
        monkeypatch.setenv("PERDURE_BASE_URL", server.url)
        said = work("run", "do it", "--model", "openai:x", "--id", "one", "--repo", str(work.folder))
    assert said.code == 3
    assert FAILURES[status] in said.out
    for look in (("show", "one"), ("brief", "one")):
        assert FAILURES[status] in work(*look).out
    assert FAILURES[status].partition(".")[0] in work("ls").out


def test_list_shows_why_a_session_failed(work: AgentFolder) -> None:
    said = work("run", "user_fails", "--id", "broken")
    assert said.code == 1
    assert "error: ValueError: no \\x1b[31msuch" in work("ls").out


@pytest.mark.slow
def test_piped_text_is_attached_to_the_prompt_and_recorded(work: AgentFolder) -> None:
    begin = [PERDURE, *work.script("Done."), "--once"]
    said = subprocess.run(begin, input=b"7 apples\n\xff pears\n", capture_output=True, timeout=180)
    assert (said.returncode, said.stdout) == (0, b"Done.\n")
    found = work.session()
    prompt, _, attached = found["arguments"]["prompt"].partition("\n\n")
    assert (prompt, found["title"]) == ("change x", "change x")
    assert "7 apples\n\N{REPLACEMENT CHARACTER} pears\n--- end attachment" in attached


@pytest.mark.slow
def test_nothing_is_attached_from_an_empty_pipe(work: AgentFolder) -> None:
    said = subprocess.run([PERDURE, *work.script("Done."), "--once"], input=b"", capture_output=True, timeout=180)
    assert (said.returncode, work.session()["arguments"]["prompt"]) == (0, "change x")


@pytest.mark.slow
def test_too_much_piped_text_is_refused(work: AgentFolder) -> None:
    much = b"x" * (300 << 10)
    said = subprocess.run([PERDURE, *work.script("Done."), "--once"], input=much, capture_output=True, timeout=180)
    assert (said.returncode, b"Standard input has more than 256 KiB." in said.stderr) == (2, True)


def test_silent_open_pipe_does_not_block_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reader, writer = os.pipe()
    monkeypatch.setattr(attachments, "FIRST", 0.01)
    monkeypatch.setattr(attachments, "SILENCE", 0.01)
    with os.fdopen(reader) as stdin, os.fdopen(writer, "wb", buffering=0) as source:
        monkeypatch.setattr("sys.stdin", stdin)
        assert attachments.read_pipe(Shell(None, json=False)) is None
        assert "No data from standard input" in capsys.readouterr().err
        source.write(b"half")
        with pytest.raises(ConfigError, match="was not closed"):
            attachments.read_pipe(Shell(None, json=False))


def test_allowing_an_unknown_tool_is_wrong_use(work: AgentFolder) -> None:
    said = work(*work.script("Done."), "--allow", "run_comand")
    assert (said.code, "no such tool" in said.err, "Did you mean run_command?" in said.err) == (2, True, True)


def test_resume_with_another_model_answers_with_it(work: AgentFolder) -> None:
    assert work(*work.script("One.")).code == 0
    other = work.terminal.folder / "other.json"
    other.write_text(json.dumps(["", "From the other model."]))
    assert work("send", "one", "again").code == 0
    wrong = work("resume", "one", "--model", "antropic:claude-sonnet-5-5", "--app", PROGRAMS_FILE)
    assert (wrong.code, "Did you mean anthropic:claude-sonnet-5-5?" in wrong.err) == (2, True)
    assert work.session()["model"] is None
    resumed = work("resume", "one", "--model", f"scripted:{other}", "--app", PROGRAMS_FILE)
    assert (resumed.code, "From the other model." in resumed.out) == (0, True)
    assert "chose the model scripted:" in work("show", "one").out


def test_run_with_a_mistyped_model_starts_nothing(work: AgentFolder) -> None:
    refused = work("run", "change x", "--id", "one", "--model", "claude-sonnet-5-5")
    assert (refused.code, "Did you mean anthropic:claude-sonnet-5-5?" in refused.err) == (2, True)
    assert work("show", "one").code == 1
