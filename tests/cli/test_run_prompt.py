"""An agent where nobody sits at a terminal: what is printed, and what the exit code says."""

from __future__ import annotations

import subprocess

from tests.cli.agents import Work, calls
from tests.cli.terminal import PERDURE

TOUCH = ("run_command", {"command": "touch b"})


def test_the_answer_is_printed_and_nothing_else(work: Work) -> None:
    look = calls("I look.", ("read_file", {"path": "a.py"}), usage={"tokens_in": 9, "cost_micros": 120_000})
    said = work(*work.script(look, "It holds\nx = 1."))
    assert (said.code, said.out) == (0, "It holds\nx = 1.\n\n")
    assert said.err == "session one\n`perdure send one TEXT` goes on with it.\n"
    again = work("resume", "one")
    assert (again.code, again.out.splitlines()[-3:]) == (0, ["It holds", "x = 1.", ""])


def test_once_ends_with_the_answer_and_a_prompt_comes_from_a_pipe(work: Work) -> None:
    begin = work.script("Done.")
    piped = [PERDURE, "run", *begin[2:], "--once"]
    said = subprocess.run(piped, input="change\nx", capture_output=True, text=True, timeout=60)
    assert (said.returncode, said.stdout, said.stderr) == (0, "Done.\n", "session one\n")
    found = work.session()
    assert (found["status"], found["title"], found["arguments"]["prompt"]) == ("done", "change", "change\nx")


def test_what_a_person_must_decide_is_exit_code_3_and_what_to_type(work: Work) -> None:
    said = work(*work.script(calls("May I?", TOUCH), "Done."))
    wait = work.terminal.wait_of("one")
    assert said.code == 3
    assert "Session one waits for a person.\n" in said.out
    assert f'run_command(command="touch b", timeout=120)\n    perdure approve {wait} --because TEXT\n' in said.out


def test_control_codes_in_an_answer_do_nothing_in_a_pipe(work: Work) -> None:
    said = work(*work.script("a\x1b[2Jb\x07\tc\u202e"))
    assert said.out == "a\\x1b[2Jb\\x07\tc\\u202e\n\n"


def test_a_prompt_without_a_model_says_what_to_type(work: Work) -> None:
    said = work("run", "fix the test")
    assert (said.code, "--model anthropic:" in said.err) == (2, True)


def test_sessions_are_listed_with_title_and_cost_and_found_by_their_words(work: Work) -> None:
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
    assert "There are more" in work("ls", "--search", "change", "--limit", "1").out
