"""Messages typed at a real pseudo-terminal: several rows, attached files, history, and the Escape key."""

from __future__ import annotations

import pytest

from tests.cli.support.agents import AgentFolder
from tests.cli.support.terminal import PROGRAMS_FILE

UP = "\x1b[A"


def messages(work: AgentFolder) -> list[str]:
    events = work("show", "one", "--json", "--last", "99").json["events"]
    return [one["body"]["message"] for one in events if one["kind"] == "inbox.received"]


@pytest.mark.slow
def test_message_of_several_rows_with_a_file_is_sent_as_one(work: AgentFolder) -> None:
    with work.open_terminal(*work.script("First.", "Second.")) as seat:
        seat.until("First.")
        seat.until("\n> ", times=2)
        seat.type("one\\\n")
        seat.until("> one\n")
        seat.type("two\x1b\r\x1b[200~three\rfour\x1b[201~ @a\t")
        seat.until("four @a.py")
        seat.type("\n")
        seat.until("four @a.py\n[attached: a.py, 6 bytes]\n")
        seat.until("Second.")
        assert "x = 1" not in seat.text  # what is attached is not printed
    (sent,) = messages(work)
    assert sent.startswith("one\ntwo\nthree\nfour @a.py\n\nThe user attached this text (6 bytes, from a.py).")


@pytest.mark.slow
def test_message_that_cannot_be_sent_stays_in_the_editor(work: AgentFolder) -> None:
    with work.open_terminal(*work.script("First.", "Second.")) as seat:
        seat.until("\n> ", times=2)
        seat.type("see @src/no.py\n")
        seat.until("There is no file src/no.py to attach; nothing was sent.")
        seat.until("\n> see @src/no.py")
        seat.type("\x15see nothing\n")
        seat.until("Second.")
    assert messages(work) == ["see nothing"]


@pytest.mark.slow
def test_history_reaches_the_next_terminal(work: AgentFolder) -> None:
    with work.open_terminal(*work.script("First.", "Second.", "Third.")) as seat:
        seat.until("\n> ", times=2)
        seat.type("again please\n")
        seat.until("Second.")
        seat.until("\n> ", times=3)
        seat.type("\x04")
        seat.ended()
    with work.open_terminal("resume", "one", "--app", PROGRAMS_FILE) as seat:
        seat.until("\n> ", times=3)
        seat.type(UP)
        seat.until("\n> again please", times=2)
        seat.type("!\n")
        seat.until("Third.")
    assert messages(work) == ["again please", "again please!"]


@pytest.mark.slow
def test_escape_puts_text_aside_at_rest_and_does_not_leave(work: AgentFolder) -> None:
    with work.open_terminal(*work.script("First.", "Second.")) as seat:
        seat.until("\n> ", times=2)
        seat.type("unfinished")
        seat.until("> unfinished")
        seat.type("\x1b")
        seat.until("Your unfinished line was put aside.")
        seat.type("\x1b")
        seat.type(UP + " now\n")
        seat.until("Second.")
    assert messages(work) == ["unfinished now"]


@pytest.mark.slow
def test_typed_text_is_shown_and_kept_while_the_agent_works(work: AgentFolder) -> None:
    with work.open_terminal(*work.script(work.hold(), "Let go.", "More.")) as seat:
        work.until_held(seat)
        seat.type("and then")
        seat.until("> and then")
        work.held.unlink()
        seat.until("Let go.")
        seat.until("\n> and then")
        seat.type(" this\n")
        seat.until("More.")
    assert messages(work) == ["and then this"]
