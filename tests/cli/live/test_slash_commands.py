"""Slash commands at a real pseudo-terminal: they run what the command line runs, and never reach the model."""

from __future__ import annotations

import pytest

from perdure.cli.display.session_info import SessionInfo
from perdure.cli.live.slash_commands import HELP, command_words, parse, text_of
from perdure.errors import ConfigError
from perdure.testing.proxy import wait_until
from tests.cli.support.agents import AgentFolder, calls

EDIT = ("edit_file", {"path": "a.py", "old": "x = 1", "new": "x = 2"})


def messages(work: AgentFolder) -> list[str]:
    events = work("show", "one", "--json", "--last", "99").json["events"]
    return [one["body"]["message"] for one in events if one["kind"] == "inbox.received"]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("/help", ("help", "")),
        ("  /DIFF --stat ", ("diff", "--stat")),
        ("/approve it is\nfine", ("approve", "it is\nfine")),
        ("/tmp is full", ("tmp", "is full")),
        ("/etc/hosts is wrong", None),
        ("//help", None),
        ("/", ("help", "")),
        ("/ help", None),
        ("/2 is half", None),
        ("see /help", None),
        ("", None),
    ],
)
def test_only_a_first_word_with_one_slash_is_a_command(line: str, found: tuple[str, str] | None) -> None:
    assert parse(line) == found


def test_doubled_slash_sends_a_word_as_text() -> None:
    assert [text_of(one) for one in ("//tmp is full", "// a comment", "//a/b")] == [
        "/tmp is full",
        "// a comment",
        "//a/b",
    ]


def test_help_fits_a_terminal_of_eighty_columns() -> None:
    assert max(2 + 24 + 2 + len(about) for _, about in HELP.values()) < 80


def test_commands_are_those_of_the_command_line() -> None:
    assert command_words("rewind", "7", "one", "") == ["rewind", "one", "--to", "7"]
    assert command_words("rewind", "7 --here", "one", "") == ["rewind", "one", "--to", "7", "--here", "--plan"]
    assert command_words("rewind", "7 --here --yes", "one", "") == ["rewind", "one", "--to", "7", "--here", "--yes"]
    assert command_words("fork", "7", "one", "") == ["fork", "one", "--at", "7"]
    assert command_words("undo", "e-1 not wanted", "one", "") == ["undo", "e-1", "--because", "not wanted"]
    assert command_words("approve", "it's fine", "one", "a-1") == ["approve", "a-1", "--because", "it's fine"]
    for name, rest in (("undo", ""), ("rewind", ""), ("diff", "--help"), ("diff", "'open")):
        with pytest.raises(ConfigError):
            command_words(name, rest, "one", "")


@pytest.mark.slow
def test_commands_show_the_session_and_send_nothing(work: AgentFolder) -> None:
    used = {"tokens_in": 1200, "tokens_out": 80, "cost_micros": 5400}
    begin = work.script(calls("I change it.", EDIT, usage=used), "Done.", "Again.")
    with work.open_terminal(*begin) as seat:
        seat.until("\n> ", times=2)
        for line, shown in {
            "/help": f"/quit {' ' * 18}  {HELP['quit'][1]}",
            "/status": "a message",
            "/plan": "no tasks",
            "/diff": "+x = 2",
            "/diff --nonsense": "No such option",
            "/cost": "cost        $0.0054",
            "/model": "The model is scripted:script.json.",
            "/model no-provider": "no-provider",
            "/approve": "No approval is asked for at the moment.",
            "/undo": "/undo needs the id of an effect.",
            "/fork": "is a branch of one at event",
            "/rewind 99999": "99999",
        }.items():
            seat.type(line + "\n")
            seat.until(f"\n> {line}\n")
            seat.until(shown)
        seat.type("/dif\n")
        seat.until("There is no command /dif; nothing was sent. Did you mean /diff?")
        seat.until("\n> /dif", times=4)  # two `/diff`, `/dif`, and `/dif` again in the editor
        seat.type("\x15//etc is a folder\n")
        seat.until("Again.")
        seat.until("1,280 tokens · $0.0054 · 100 % context left · one")
        seat.type("/quit\n")
        assert seat.ended() == 0
    assert messages(work) == ["/etc is a folder"]
    assert "context left" not in seat.text


@pytest.mark.slow
def test_model_is_chosen_at_the_terminal(work: AgentFolder) -> None:
    other = work.terminal.folder / "other.json"
    begin = work.script("First.")
    other.write_text('["unused", "Second, from another model."]')
    with work.open_terminal(*begin) as seat:
        seat.until("\n> ", times=2)
        seat.type(f"/model scripted:{other}\n")
        seat.until("from the next model call on")
        seat.until("scripted:other.json")
        seat.type("go ahead\n")
        seat.until("Second, from another model.")
    assert work.session()["model"] == f"scripted:{other}"


@pytest.mark.slow
def test_approval_is_given_and_looked_into_by_commands(work: AgentFolder) -> None:
    touch = calls("May I?", ("run_command", {"command": "touch b"}))
    with work.open_terminal(*work.script(touch, "Done."), "--unsandboxed") as seat:
        seat.until("needs your approval")
        seat.until("y/s/t/n/m > ")
        seat.type("/sta")
        seat.until("> /sta")
        seat.type("tus\n")
        seat.until("perdure approve")
        seat.until("y/s/t/n/m > ")
        seat.type("/approve only touches\n")
        seat.until("approved by ada: only touches")
        seat.until("Done.")
    assert (work.folder / "b").exists()


@pytest.mark.slow
def test_commands_work_while_the_agent_works_and_on_a_dumb_terminal(work: AgentFolder) -> None:
    with work.open_terminal(*work.script(work.hold(), "Let go."), TERM="dumb") as seat:
        wait_until(work.held.exists, "the tool has begun")
        seat.type("/status\n")
        seat.until("dispatched")
        seat.type("/nothing\n")
        seat.until("There is no command /nothing")
        work.held.unlink()
        seat.until("Let go.")
        seat.until("\n> ", times=2)
        seat.type("/cost\n")
        seat.until("tokens in")
        seat.type("/quit\n")
        assert seat.ended() == 0
    assert messages(work) == []


def test_information_row_fits_narrow_terminals() -> None:
    info = SessionInfo("fix-sum", "anthropic:claude-sonnet-5-5", 12345, 120_000, 87)
    assert info.line(100) == "anthropic:claude-sonnet-5-5 · 12,345 tokens · $0.1200 · 87 % context left · fix-sum"
    assert info.line(60) == "anthropic:claude-sonnet-5-5 · $0.1200 · fix-sum"
    assert info.line(19) == "$0.1200 · fix-sum"
    assert info.line(8) == "fix-sum"
    assert len(SessionInfo("x" * 99, "m", 0, 0).line(20)) == 20
