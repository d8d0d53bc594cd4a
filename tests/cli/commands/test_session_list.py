"""`perdure ls`: what counts as needing a person, new machines, the width; and `perdure resume --last`."""

from __future__ import annotations

import os
import signal

import apsw
import pytest

from tests.cli.support.agents import AgentFolder, calls
from tests.cli.support.terminal import Terminal


def test_answered_agent_does_not_need_a_person_but_a_question_does(work: AgentFolder) -> None:
    assert work(*work.script("Done.")).code == 0
    assert work.terminal.run("user_review", "review-7").code == 3
    work("send", "one", "more")
    assert [one["id"] for one in work("ls", "--json").lines] == ["review-7", "one"]  # the newest is not the first
    assert "\n1 of these needs a person." in work("ls").out


def test_questions_approvals_and_doubts_need_a_person(work: AgentFolder) -> None:
    for program in ("user_talk", "user_gated", "user_unknown"):
        assert work("run", program).code == 3
    assert work(*work.script("Done.")).code == 0
    assert "\n3 of these need a person." in work("ls").out


def test_agent_that_stopped_at_a_limit_needs_a_person(work: AgentFolder) -> None:
    look = calls("I look.", ("read_file", {"path": "a.py"}))
    work(*work.script(look, look, look), "--turns", "1")
    assert "\n1 of these needs a person." in work("ls").out


def test_ls_is_friendly_on_a_new_machine_and_creates_nothing(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PERDURE_STORE")
    shown = terminal("ls")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith('There are no sessions yet. `perdure run "PROMPT"` starts one')
    assert (terminal("ls", "--json").code, terminal("ls", "--json").out) == (0, "")
    assert list(terminal.folder.iterdir()) == []
    assert terminal("ls", "--store", "elsewhere.db").code == 1  # a store that was named and is not there is an error


def test_ls_uses_the_width_of_the_terminal(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    title = "a long title " * 9
    terminal("run", "user_sleeper", "--id", "done-1", "--title", title.strip())
    monkeypatch.setenv("COLUMNS", "250")
    wide = terminal("ls").out
    assert title.strip() in wide
    assert "cost" not in wide  # no session has a cost
    monkeypatch.setenv("COLUMNS", "80")
    assert all(len(line) <= 80 for line in terminal("ls").out.splitlines())


def test_resume_last_prefers_sessions_of_the_current_folder(terminal: Terminal) -> None:
    assert terminal.run("user_review", "here", "--repo", ".").code == 3
    assert terminal.run("user_review", "there", "--repo", "/tmp").code == 3
    assert "Session here " in terminal("resume", "--last").out
    os.chdir("/")
    assert "Session there " in terminal("resume", "--last").out


def test_ls_shows_a_session_whose_process_died_here_at_once(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal.arm()
    assert terminal.process("run", "user_release", f"folder={terminal.folder}", "--id", "r").code == -signal.SIGKILL
    shown = terminal("ls").out
    assert "lost, resumable" in shown
    assert shown.endswith("Continue with\n  perdure resume r\n")
    (listed,) = terminal("ls", "--json").lines
    assert (listed["status"], listed["lost"]) == ("running", True)
    died = "The process of r has died. Run `perdure resume r{}` to continue.\n"
    assert terminal("show", "r").out.endswith(died.format(""))
    monkeypatch.delenv("PERDURE_APP")
    assert terminal.process("show", "r").out.endswith(died.format(" --app MODULE"))
    assert terminal.process("ls").out.endswith("Continue with\n  perdure resume r --app MODULE\n")
    assert "Run `perdure resume r --app MODULE` to do it." in terminal.process("resume", "r", "--plan").out


def test_ls_does_not_call_a_session_of_another_machine_lost(terminal: Terminal) -> None:
    terminal.arm()
    assert terminal.process("run", "user_release", f"folder={terminal.folder}", "--id", "r").code == -signal.SIGKILL
    with apsw.Connection(str(terminal.folder / "perdure.db")) as db:
        db.execute("update worker set host = 'another', boot_id = 'another', start_token = '1 another another another'")
    assert "lost" not in terminal("ls").out
