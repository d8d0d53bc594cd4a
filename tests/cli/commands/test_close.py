"""`perdure close` and `perdure rename`."""

from __future__ import annotations

from tests.cli.support.agents import AgentFolder
from tests.cli.support.terminal import Terminal


def test_closed_session_is_done_and_cannot_be_closed_again(work: AgentFolder) -> None:
    assert work(*work.script("Done \x1b[2J.")).code == 0
    closed = work("close", "one", "--by", "grace")
    assert (closed.code, closed.out) == (0, "Session one is closed. Its result: Done \\x1b[2J.\n")
    assert work.session()["status"] == "done"
    refused = work("close", "one")
    assert (refused.code, "[illegal-move]" in refused.err) == (1, True)
    assert work("verify", "one").code == 0


def test_session_that_asks_a_question_is_not_closed(terminal: Terminal) -> None:
    assert terminal.run("user_review", "review-7").code == 3
    refused = terminal("close", "review-7")
    assert (refused.code, "does not only wait for a message" in refused.err) == (1, True)


def test_renamed_session_has_its_new_title_in_the_list(terminal: Terminal) -> None:
    assert terminal("run", "user_sleeper", "--id", "done-1").code == 0
    renamed = terminal("rename", "done-1", "Better title")
    assert (renamed.code, renamed.out) == (0, "Session done-1 is titled: Better title\n")
    assert "Better title" in terminal("ls").out
    assert terminal("rename", "done-1", "", "--json").code == 2
    assert terminal("rename", "done-1", "T", "--json").json["title"] == "T"
