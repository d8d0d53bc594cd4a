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


def test_archived_session_is_hidden_until_a_message_comes(work: AgentFolder) -> None:
    assert work(*work.script("Done.", "Again.")).code == 0
    said = work("archive", "one")
    assert (said.code, said.out) == (
        0,
        "Session one is archived. `perdure archive one --undo` shows it in the list again.\n",
    )
    assert work("ls", "--json").lines == []
    assert work("ls").out == "Every session is archived. `perdure ls --archived` lists them.\n"
    assert [one["id"] for one in work("ls", "--archived", "--json").lines] == ["one"]
    assert [one["id"] for one in work("ls", "--all", "--json").lines] == ["one"]
    assert work("send", "one", "more").code == 0
    assert [one["id"] for one in work("ls", "--json").lines] == ["one"]
    assert work("verify", "one").code == 0


def test_removed_session_is_forgotten_and_its_id_refused(work: AgentFolder) -> None:
    begin = work.script("The secret is 7.")
    assert work(*begin).code == 0
    refused = work("rm", "one")
    assert (refused.code, "Add --yes" in refused.err) == (2, True)
    removed = work("rm", "one", "--yes", "--because", "a test", "--by", "grace")
    assert (removed.code, "Its id is not used again." in removed.out) == (0, True)
    for command in (("show", "one"), ("export", "one"), ("rm", "one", "--yes")):
        assert "was removed on" in work(*command).err
    again = work(*begin)
    assert (again.code, "its id is not used again" in again.err) == (1, True)
    assert work("verify").code == 0


def test_removal_asks_at_a_terminal_and_says_what_it_forgets(work: AgentFolder) -> None:
    assert work(*work.script("Done.")).code == 0
    with work.open_terminal("rm", "one") as seat:
        seat.until("would be forgotten")
        seat.until("Remove it for good?")
        seat.type("n\n")
        seat.until("Nothing was removed.")
    assert work.session()["status"] == "waiting"
