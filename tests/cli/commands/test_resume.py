"""What a person is shown when a session is resumed whose worker was killed."""

from __future__ import annotations

import signal

import pytest

from tests.cli.support.agents import AgentFolder, calls
from tests.cli.support.terminal import PROGRAMS_FILE

PLAN = ("plan", {"tasks": [{"title": "Fix \x1b[2Jit", "state": "active"}, {"title": "Test it"}]})
DECISION = ("decide", {"decision": "rewrite the parser", "because": "it is short"})


@pytest.mark.slow
def test_unfinished_work_of_a_killed_worker_is_shown(work: AgentFolder) -> None:
    begin = [*work.script(calls("I plan.", PLAN, DECISION), work.hold(), "Done."), "--tool", "plan", "--tool", "decide"]
    with work.open_terminal(*begin) as seat:
        work.until_held(seat)
        seat.process.send_signal(signal.SIGKILL)
        seat.process.wait()
    work.held.unlink()
    planned = work.terminal.process("resume", "one", "--plan", "--app", PROGRAMS_FILE).out
    lines = planned.splitlines()
    place = lines.index("It left unfinished:")
    assert "is dead" in lines[place - 1]
    assert lines[place + 1].endswith(" was left active: Fix \\x1b[2Jit")
    assert lines[place + 2].endswith(" has no outcome yet: rewrite the parser")
    assert "Test it" not in planned
    with work.open_terminal("resume", "one", "--app", PROGRAMS_FILE) as seat:
        seat.until("It left unfinished:")
        seat.until("verdict > ")
        seat.type("abandon I did not look\n")
        seat.until("While you were away: ")  # what the model is told
        seat.until("Done.")
        assert seat.text.count("has no outcome yet: rewrite the parser") == 2
