"""A conversation at a real pseudo-terminal, judged by what a person can read on it."""

from __future__ import annotations

import re
import shlex
import signal
import sys

import pytest

from perdure.agent.commands.sandbox import available
from perdure.cli.text.intent import SANDBOXES
from perdure.testing.proxy import wait_until
from tests.cli.support.agents import AgentFolder, calls
from tests.cli.support.terminal import PROGRAMS_FILE

EDIT = ("edit_file", {"path": "a.py", "old": "x = 1", "new": "x = 2"})
TOUCH = ("run_command", {"command": "touch b; echo made"})
USED = {"tokens_in": 1200, "tokens_out": 80, "cost_micros": 5400}


def without_times(text: str) -> list[str]:
    return [re.sub(r"  \d+\.\ds$", "  TIME", line) for line in text.splitlines()]


@pytest.mark.slow
def test_conversation_shows_everything_in_order(work: AgentFolder) -> None:
    ask = calls("Which one?", ("ask_person", {"question": "Which?", "choices": ["left", "right"]}))
    begin = work.script(
        calls("I look.", ("read_file", {"path": "a.py"})),
        calls("I change\nand run.", EDIT, TOUCH, usage=USED),
        "Done.",
        ask,
        "Right it is.",
    )
    with work.open_terminal(*begin, "--unsandboxed") as seat:
        seat.until("y/s/t/n/m > ")
        seat.type("y")
        seat.until("\n> ", times=2)
        seat.type("go lefft\x7f\x7f\x7fft\n")
        seat.until("answer > ")
        seat.type("2\n")
        seat.until("Right it is.")
        seat.until("\n> ", times=3)
        seat.type("\n")
        assert seat.ended() == 0
    assert without_times(seat.text) == [
        "session one",
        "> change x",
        "I look.",
        '  ● read_file path="a.py"  TIME',
        "    a.py: 1 lines, 6 bytes  1 x = 1",
        "I change",
        "and run.",
        '  ● edit_file path="a.py"  TIME',
        "       1 -x = 1",
        "       1 +x = 2",
        "? run_command needs your approval (gate agent)",
        "    command  touch b; echo made",
        "    timeout  120",
        f"    folder   {work.folder}",
        f"    sandbox  {available(work.folder)}" + ("" if available(work.folder) != "none" else SANDBOXES["none"]),
        "    network  no",
        "    rule  default: No rule is about this part of the command, and the default is ask.",
        "  y  approve this call, once",
        "  s  approve it, and allow exactly this call again in this session",
        "  t  approve it, and allow every call of run_command in this session",
        "  n  deny it; you may add a reason",
        "  m  more: the whole call, its ids and its digest",
        "y/s/t/n/m > y",
        "  run_command: approved by ada",
        '  ● run_command command="touch b; echo made"  TIME',
        "    exit 0  made",
        "Done.",
        "  3 model calls · 1,280 tokens · $0.0054",
        "",
        "> go left",
        "Which one?",
        "? Which?",
        "    1 left",
        "    2 right",
        "answer > 2",
        "  ada answered: right",
        "Right it is.",
        "  2 model calls",
        "Session one waits for your next message. Run `perdure attach one --app "
        + shlex.quote(PROGRAMS_FILE)
        + "` to return to it.",
    ]
    assert "\x1b[2m   1 \x1b[0m\x1b[32m+x = 2\x1b[0m" in seat.raw
    assert "\x1b[2m   1 \x1b[0m\x1b[31m-x = 1\x1b[0m" in seat.raw


@pytest.mark.slow
def test_tool_allowed_for_the_session_is_recorded_and_asks_no_more(work: AgentFolder) -> None:
    begin = work.script(
        calls("Once.", TOUCH),
        calls("Allow me more.", ("remember", {"key": "git_push", "value": "yes"})),
        calls("Twice.", ("run_command", {"command": "touch c"})),
        "Done.",
    )
    with work.open_terminal(*begin, "--unsandboxed") as seat:
        seat.until("y/s/t/n/m > ")
        seat.type("t")
        seat.until("4 model calls")
        assert "run_command: approved by ada" in seat.text
        assert seat.text.count("needs your approval") == 1
    (said,) = work("exemptions", "--json").lines
    assert (said["rule"], said["tool"], said["intent_digest"], said["granted_by"]) == (
        "default",
        "run_command",
        None,
        "ada",
    )
    assert {path.name for path in work.folder.iterdir()} == {"a.py", "b", "c"}


@pytest.mark.slow
def test_denial_and_its_reason_reach_the_model(work: AgentFolder) -> None:
    begin = work.script(calls("May I?", TOUCH), "Then not.")
    with work.open_terminal(*begin) as seat:
        seat.until("y/s/t/n/m > ")
        seat.type("m")
        seat.until("intent digest")
        seat.until("y/s/t/n/m > ", times=2)
        seat.type("?\n")
        seat.until("y/s/t/n/m > ", times=3)
        seat.type("n")
        seat.until("reason, or Enter for none > ")
        seat.type("not today\n")
        seat.until("Then not.")
        assert "run_command: denied by ada: not today" in seat.text
        assert "not started:" in seat.text
    assert not (work.folder / "b").exists()


@pytest.mark.slow
def test_ctrl_c_names_a_tool_that_cannot_be_stopped_and_takes_messages(work: AgentFolder) -> None:
    begin = work.script(work.hold(), "Let go.")
    with work.open_terminal(*begin) as seat:
        work.until_held(seat)
        seat.until("user_hold")
        seat.type("\x03")
        seat.until("user_hold cannot be stopped; the session stops when it has ended.")
        assert work.session()["status"] == "running"
        seat.type("then do this\n")
        wait_until(lambda: "then do this" in str(work("show", "one", "--json", "--last", "9").json), "it was sent")
        work.held.unlink()
        seat.until("ada stopped the work here.")
        seat.until("Let go.")
        seat.until("\n> ", times=3)
        assert "Traceback" not in seat.text
    assert work.session()["status"] == "waiting"


@pytest.mark.slow
def test_second_ctrl_c_leaves_and_nothing_is_done_twice(work: AgentFolder) -> None:
    begin = work.script(work.hold(), "Let go.")
    with work.open_terminal(*begin) as seat:
        work.until_held(seat)
        seat.until("user_hold")
        seat.type("\x03")
        seat.until("user_hold cannot be stopped")
        seat.type("\x03")
        assert seat.ended() == 0
        assert "Session one continues in the background." in seat.text
        assert "Traceback" not in seat.text
    assert work.held.exists()
    work.terminal.until_status("one", "waiting")  # the worker found the act without an end, and asks
    (doubt,) = work("effects", "--in-doubt", "--json").lines
    assert (doubt["tool"], doubt["state"]) == ("user_hold", "dispatched")
    assert work("verify").code == 0


@pytest.mark.slow
def test_killed_terminal_loses_nothing(work: AgentFolder) -> None:
    begin = work.script(calls("I look.", ("read_file", {"path": "a.py"})), work.hold(), "Done.")
    with work.open_terminal(*begin) as seat:
        work.until_held(seat)
        seat.process.send_signal(signal.SIGKILL)
        seat.process.wait()
    work.held.unlink()
    with work.open_terminal("resume", "one", "--app", PROGRAMS_FILE) as seat:
        seat.until("is dead")
        seat.until("verdict > ")
        assert "user_hold" in seat.text
        seat.type("happened\n")
        seat.until("how you know", times=2)
        seat.type("abandon I did not look\n")
        seat.until("Done.")


HOSTILE = "\x1b]0;owned\x07\x1b[2Jred\x1b[31m\u202eback\x9b5m\r over"


@pytest.mark.slow
def test_control_characters_are_escaped(work: AgentFolder) -> None:
    (work.folder / "a.py").write_bytes(HOSTILE.encode())
    begin = work.script(
        calls(HOSTILE, ("read_file", {"path": "a.py"}), ("run_command", {"command": f"echo '{HOSTILE}'"})),
        calls("", ("write_file", {"path": "b\x1b[2J.py", "content": HOSTILE + "\n" + HOSTILE})),
        HOSTILE,
    )
    with work.open_terminal(*begin, "--unsandboxed", "--allow", "run_command") as seat:
        seat.until("3 model calls")
        seat.type("\x04")
        assert seat.ended() == 0
    assert seat.text.count("\\x1b]0;owned\\x07\\x1b[2Jred\\x1b[31m\\u202eback\\x9b5m\\r over") >= 4
    assert [code for code in ("\x1b]", "\x1b[2J", "\x07", "\u202e", "\x9b") if code in seat.raw] == []


@pytest.mark.slow
@pytest.mark.parametrize(("environment", "drawn"), [({"NO_COLOR": "1"}, True), ({"TERM": "dumb"}, False)])
def test_colour_and_redrawing_only_on_capable_terminals(
    work: AgentFolder, environment: dict[str, str], drawn: bool
) -> None:
    begin = work.script(calls("Now.", EDIT, TOUCH), "Done.")
    with work.open_terminal(*begin, "--unsandboxed", **environment) as seat:
        seat.until("y/s/t/n/m > ")
        seat.type("y\n")
        seat.until("Done.")
        seat.until("\n> ", times=2)
        seat.type("\n")
        assert seat.ended() == 0
    assert (re.search(r"\x1b\[[0-9;]*3[0-9]m", seat.raw), "\x1b[J" in seat.raw) == (None, drawn)
    assert drawn or "\x1b" not in seat.raw
    assert "       1 +x = 2" in seat.text.splitlines()


@pytest.mark.slow
def test_long_line_on_a_narrow_terminal(work: AgentFolder) -> None:
    begin = work.script(calls("long " * 500, ("read_file", {"path": "a.py"}), EDIT), "Done.")
    (work.folder / "a.py").write_text("x = 1" + " # and so on" * 2000 + "\n")
    with work.open_terminal(*begin, width=40) as seat:
        seat.until("Done.")
        seat.type("\n\x04")
        assert seat.ended() == 0
    rows = [line for line in seat.text.splitlines() if line.startswith(("  ●", "    a.py"))]
    assert len(rows) == 3
    assert [row for row in rows if len(row) > 40] == []
    words = [line for line in seat.text.splitlines() if line.startswith("long ")]
    assert " ".join(words) == "long " * 499 + "long"
    assert {len(line) for line in words[:-1]} == {39}


@pytest.mark.slow
def test_question_of_a_program_is_asked_at_the_terminal(work: AgentFolder) -> None:
    with work.open_terminal("run", "user_talk", "--id", "t", "--app", PROGRAMS_FILE) as seat:
        seat.until("answer > ")
        seat.type("Ada\n")
        assert seat.ended() == 0
    assert seat.text.splitlines()[-1] == "hello Ada" or seat.text.rstrip().splitlines()[-1] == "hello Ada"
    assert "? Name?" in seat.text


@pytest.mark.slow
def test_resume_watches_a_session_that_a_worker_claims_first(work: AgentFolder) -> None:
    """The worker of an earlier hand-over may still be there, and take the message that `resume` sends."""
    begin = work.script(work.hold(), "Let go.")
    claimed_after = (  # the look at the lease finds a session that is free
        "import perdure.cli.commands.resume as resume; found = resume._find; "
        "resume._find = lambda *given: (found(*given)[0], False, []); "
        "from perdure.cli import main; main()"
    )
    with work.open_terminal(*begin) as other:
        work.until_held(other)
        with work.open_terminal(
            "-c", claimed_after, "resume", "one", "--app", PROGRAMS_FILE, program=sys.executable
        ) as seat:
            seat.until("Still watching.")
            work.held.unlink()
            seat.until("Let go.")
            seat.until("\n> ", times=2)
            seat.type("\x04")
            assert seat.ended() == 0
        other.until("Let go.")
    assert [one["tool"] for one in work("effects", "--json").lines].count("user_hold") == 1
