"""Closing the terminal window: the session continues in the background, and nothing is done twice."""

from __future__ import annotations

import os

import pytest

from perdure.testing.proxy import wait_until
from tests.cli.support.agents import AgentFolder, calls
from tests.cli.support.pseudo_terminal import PATIENCE, PseudoTerminal
from tests.cli.support.terminal import PERDURE

WAIT = "touch begun; while [ ! -e go ]; do sleep 0.05; done; echo once >> done"
ALLOWED = ("--allow", "run_command", "--unsandboxed")


def close_window(seat: PseudoTerminal) -> None:
    """Close our end of the terminal, as a window does. The kernel then sends SIGHUP."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, seat.ours)
    os.close(null)


@pytest.mark.slow
def test_session_continues_in_the_background_after_the_window_is_closed(work: AgentFolder) -> None:
    begin = work.script(calls("I wait.", ("run_command", {"command": WAIT})), "Let go.")
    with work.open_terminal(*begin, *ALLOWED) as seat:
        wait_until((work.folder / "begun").exists, f"the command has begun: {seat.text}")
        close_window(seat)
        assert seat.process.wait(PATIENCE) == 0
    (work.folder / "go").touch()
    work.terminal.until_status("one", "waiting")
    assert (work.folder / "done").read_text() == "once\n"
    assert work("effects", "--in-doubt", "--json").lines == []
    assert "Let go." in work("show", "one").out
    assert work("verify").code == 0


@pytest.mark.slow
def test_session_that_rests_is_left_when_the_window_is_closed(work: AgentFolder) -> None:
    with work.open_terminal(*work.script("Done.", "More.")) as seat:
        seat.until("Done.")
        seat.until("\n> ", times=2)
        close_window(seat)
        assert seat.process.wait(PATIENCE) == 0
    assert work.session()["status"] == "waiting"
    assert not list(work.terminal.folder.glob("perdure.db.d/logs/*"))  # no worker was started


@pytest.mark.slow
def test_ignored_hangup_stays_ignored(work: AgentFolder) -> None:
    begin = work.script(calls("I wait.", ("run_command", {"command": WAIT})), "Let go.")
    ignoring = ("-c", 'trap "" HUP; exec "$0" "$@"', PERDURE)
    with work.open_terminal(*ignoring, *begin, *ALLOWED, program="/bin/sh") as seat:
        wait_until((work.folder / "begun").exists, f"the command has begun: {seat.text}")
        os.kill(seat.process.pid, 1)
        (work.folder / "go").touch()
        seat.until("Let go.")
