"""Several terminals with one session: watching, answering, steering, and a worker that is really killed."""

from __future__ import annotations

import os
import shlex
import signal
from typing import Any

import pytest

from tests.cli.support.agents import AgentFolder, calls
from tests.cli.support.terminal import PROGRAMS_FILE

TOUCH = ("run_command", {"command": "touch b; echo made"})


def worker_of(session: dict[str, Any]) -> int:
    """The process that has a session."""
    return int(str(session["lease_holder"]).rpartition(":")[2])


def detached(work: AgentFolder, *turns: Any) -> None:
    said = work.terminal.process(*work.script(*turns), "--unsandboxed", "--detach")
    assert (said.code, said.out) == (0, "one\n"), said
    assert (
        f"`perdure attach one --app {shlex.quote(PROGRAMS_FILE)}` to watch it and answer its questions.\n" in said.err
    )


@pytest.mark.slow
def test_two_terminals_watch_answer_and_steer_one_session(work: AgentFolder) -> None:
    detached(work, calls("May I?", TOUCH), work.hold(), calls("I look.", ("read_file", {"path": "a.py"})), "Done.")
    with (
        work.open_terminal("attach", "one", "--by", "ada") as first,
        work.open_terminal("attach", "one", "--by", "grace") as second,
    ):
        for seat in (first, second):
            seat.until("y/s/t/n/m > ")
            assert "> change x\nMay I?\n" in seat.text
            assert "\n? run_command needs your approval (gate agent)\n    command  touch b; echo made\n" in seat.text
        first.type("y")
        first.until("y/s/t/n/m > y\n  run_command: approved by ada\n")
        second.until("its digest\n  run_command: approved by ada\n")
        work.until_held(first, second)
        with work.open_terminal("attach", "one", "--tail", "1") as third:
            third.until("has held it for")
            third.type("\x04")
            assert third.ended() == 0
            assert "Session one continues in the background.\nRun `perdure attach one` to return to it." in third.text
        second.type("look first\n")
        first.until("grace steers: look first")
        work.held.unlink()
        for seat in (first, second):
            seat.until("Done.\n  4 model calls\n> ")
            assert seat.text.count("Done.") == 1
        second.type("\x04")
        assert second.ended() == 0
        first.type("\x04")
        assert first.ended() == 0
    lines = [line for line in first.text.splitlines() if line.startswith(("  ●", "> ", "I ", "Done"))]
    assert [line.split()[1] for line in lines if line.startswith("  ●")] == ["run_command", "user_hold", "read_file"]
    assert lines.index("> look first") < lines.index("I look.")
    assert "`perdure attach one` to return to it." in first.text


@pytest.mark.slow
def test_dead_worker_is_reported_and_replaced_on_request(work: AgentFolder) -> None:
    detached(work, work.hold(), calls("Again.", ("read_file", {"path": "a.py"})), "Done.")
    with work.open_terminal("attach", "one") as seat:
        work.until_held(seat)
        first = worker_of(work.session())
        seat.until(f"process {first}, has held it for")
        os.kill(first, signal.SIGKILL)
        seat.until("is dead. The session can be taken over.")
        piped = work.terminal.process("attach", "one", "--tail", "2")
        assert (piped.code, "is dead" in piped.out) == (4, True)
        seat.until("Press Enter to take it over > ")
        seat.type("\n")
        seat.until("A worker continues it in the background")
        seat.until("verdict > ")
        work.held.unlink()
        seat.type("happened I saw it\n")
        seat.until("--result JSON")  # what it returned cannot be said in a word
        seat.until("Done.\n  3 model calls\n")  # calls that change nothing continue meanwhile
        seat.type("abandon never mind\n")
        seat.until("; ada abandoned it: never mind")
        seat.until("1 model call\n> ")
        seat.type("\n")
        assert seat.ended() == 0
    assert seat.text.count("I hold.") == 1
    taken = [one for one in work("show", "one", "--json", "--last", "100").json["events"] if "lease" in one["kind"]]
    assert [one["kind"] for one in taken][:2] == ["lease.acquired", "lease.taken_over"]


@pytest.mark.slow
def test_living_holder_is_shown_and_ctrl_c_interrupts_its_session(work: AgentFolder) -> None:
    detached(work, work.hold(), "Done.")
    with work.open_terminal("attach", "one", "--take-over") as seat:
        work.until_held(seat)
        pid = worker_of(work.session())
        seat.until(f"process {pid}, has held it for")
        assert "can be taken over only after" in seat.text
        seat.type("\x03")
        seat.until("user_hold cannot be stopped")
        work.held.unlink()
        seat.until("ada stopped the work here.")
        seat.until("\n> ")
        seat.type("continue\n")
        seat.until("Done.\n")


@pytest.mark.slow
def test_attach_in_a_pipe_ends_when_a_person_is_needed(work: AgentFolder) -> None:
    detached(work, calls("May I?", TOUCH), "Done.")
    said = work("attach", "one")
    assert said.code == 3
    lines = said.out.splitlines()
    told = ["> change x", "May I?", "Session one waits for a person."]
    assert [line for line in lines if line in told] == told
    assert lines[lines.index(told[-1]) + 1] == ""
    assert "\x1b" not in said.out
    work("approve", "a-", "--because", "fine")
    said = work("attach", "one", "--tail", "4")
    assert (said.code, "Done.\n  2 model calls\n" in said.out) == (0, True)


@pytest.mark.slow
def test_attach_to_a_program_shows_its_log(work: AgentFolder) -> None:
    assert work.terminal.process("run", "user_talk", "--id", "t", "--detach").code == 0
    with work.open_terminal("attach", "t") as seat:
        seat.until("answer > ")
        seat.type("Ada\n")
        assert seat.ended() == 0
    assert "it is done: hello Ada" in seat.text
    assert work("attach", "t").out.splitlines()[-1].endswith("it is done: hello Ada")


def test_attach_to_an_unknown_session_fails(work: AgentFolder) -> None:
    assert work("attach", "unknown").code == 1
    assert work("worker", "unknown").code == 1
