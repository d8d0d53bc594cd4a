"""`perdure rewind`, as a person reads it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.cli.support.pseudo_terminal import PseudoTerminal
from tests.cli.support.repositories import BRANCH_PROGRAMS_FILE, call, events, make_repository, work, write
from tests.cli.support.terminal import Terminal

FIRST = [call(write("b.txt", "b\n"))]


@pytest.fixture
def repository(terminal: Terminal) -> Path:
    return make_repository(terminal.folder / "work")


@pytest.mark.slow
def test_rewind_shows_the_folder_with_the_earlier_files(terminal: Terminal, repository: Path) -> None:
    work(terminal, [*FIRST, call(write("c.txt", "c\n")), "Done.", "Again."])
    at = events(terminal, "tool")[0]
    said = terminal("rewind", "s", "--to", str(at), "--id", "r")
    assert (said.code, said.err) == (0, "")
    first, second, third, *rest = said.out.splitlines()
    assert first == f"Session r is a branch of s, rewound to event {at}."
    assert second == f"Its files are as they were at event {at}; those of s did not change."
    place = Path(third.removeprefix("Its folder is "))
    assert (place / "b.txt").read_text() == "b\n"
    assert not (place / "c.txt").exists()
    assert (repository / "c.txt").exists()
    assert rest == [
        f"Nothing was done outside after event {at}.",
        "Run `perdure send r TEXT` to tell the agent how to continue.",
    ]
    (waits,) = terminal("show", "r", "--json").json["waits"]
    assert (waits["kind"], waits["detail"]["about"]) == ("input", "rewound")
    terminal("send", "r", "again")
    assert terminal("resume", "r").out.endswith("Done.\n\n")


@pytest.mark.slow
@pytest.mark.usefixtures("repository")
def test_rewind_lists_outside_effects_with_their_undo_command(terminal: Terminal) -> None:
    booking = ("branch_book", {"folder": str(terminal.folder), "note": "\x1b[2Jroom 7"})
    work(
        terminal,
        [*FIRST, call(booking), "Done."],
        "--app",
        BRANCH_PROGRAMS_FILE,
        "--tool",
        "write_file",
        "--tool",
        "branch_book",
    )
    at = events(terminal, "tool")[0]
    said = terminal("rewind", "s", "--to", str(at), "--app", BRANCH_PROGRAMS_FILE, "--id", "r")
    lines = said.out.splitlines()
    listed = lines.index(f"Done outside after event {at}, and not undone:")
    effect, rest = lines[listed + 1].split(maxsplit=1)
    assert rest.startswith(f'branch_book(folder="{terminal.folder}", note="\\u001b[2Jroom 7")')
    assert lines[listed + 2] == f"    perdure undo {effect} --because TEXT --app {shlex.quote(BRANCH_PROGRAMS_FILE)}"
    assert said.out.replace("\n", "").isprintable()
    done = terminal("undo", effect, "--because", "wrong night", "--app", BRANCH_PROGRAMS_FILE)
    assert (done.code, (terminal.folder / "booked").exists()) == (0, False)
    found = terminal("rewind", "s", "--to", str(at), "--app", BRANCH_PROGRAMS_FILE, "--json").json
    assert (found["outside"], found["at"], found["parent"]) == ([], at, "s")


@pytest.mark.usefixtures("repository")
def test_rewind_refuses_a_wrong_event_and_a_program(terminal: Terminal) -> None:
    work(terminal, ["Done."])
    for to, says in (("1", "The transcript is empty at event 1."), ("99", "no event 99")):
        said = terminal("rewind", "s", "--to", to)
        assert (said.code, says in said.err) == (2, True)
    terminal("run", "user_talk", "--id", "t")
    said = terminal("rewind", "t", "--to", "1")
    assert (said.code, "`perdure fork t --at 1` branches it." in said.err) == (2, True)
    assert terminal("rewind", "s").code == 2


@pytest.mark.slow
def test_rewind_outside_git_gets_a_plain_folder(terminal: Terminal) -> None:
    (terminal.folder / "plain").mkdir()
    work(terminal, [*FIRST, call(write("c.txt", "c\n")), "Done."], repo="plain")
    at = events(terminal, "tool")[0]
    found = terminal("rewind", "s", "--to", str(at), "--json").json
    assert sorted(one.name for one in Path(found["folder"]).iterdir()) == ["b.txt"]


@pytest.mark.slow
def test_files_outside_the_snapshot_are_listed_everywhere(terminal: Terminal, repository: Path) -> None:
    with (repository / "big.bin").open("wb") as big:
        big.truncate((100 << 20) + 1)
    work(terminal, [*FIRST, "Done.", call(write("c.txt", "c\n")), "Done on the branch."])
    told = "big.bin (too large)"
    at = events(terminal, "tool")[0]
    body = terminal("show", "s", "--json", "--last", "100").json["events"][at - 1]["body"]
    assert body["not_kept"] == [told]
    assert f"not in its snapshots: {told}" in terminal("brief", "s").out
    assert f"(not in the snapshot: {told})" in terminal("show", "s", "--last", "100").out
    rewound = terminal("rewind", "s", "--to", str(at)).out
    assert "except those listed below" in rewound
    assert f"  {told} is not in the snapshot: it may be missing there, or differ" in rewound.splitlines()
    assert f"not compared: {told}, not in the snapshot" in terminal("diff", "s").err
    forked = terminal("fork", "s", "--id", "b").out
    assert f"  {told} is not in the snapshot: it may be missing there, or differ" in forked.splitlines()


@pytest.mark.slow
def test_rewind_here_shows_the_plan_and_needs_confirmation(terminal: Terminal, repository: Path) -> None:
    work(terminal, [*FIRST, call(write("c.txt", "c\n")), "Done."])
    at = events(terminal, "tool")[0]
    plan = [f"Back to event {at} in {repository}: 1 changed, 1 removed", "  changed  a.txt", "  removed  c.txt"]
    (repository / "a.txt").write_text("by hand\n")
    said = terminal("rewind", "s", "--to", str(at), "--here", "--plan")
    assert (said.code, said.out.splitlines()) == (0, plan)
    said = terminal("rewind", "s", "--to", str(at), "--here")
    assert (said.code, said.out.splitlines()) == (2, plan)
    assert "Nothing was changed: a rewind in place needs confirmation." in said.err
    assert (repository / "c.txt").exists()
    said = terminal("rewind", "s", "--to", str(at), "--here", "--yes")
    assert (said.code, said.err) == (0, "")
    *shown, counted, last = said.out.splitlines()
    assert (shown, counted) == (plan, "1 file written, 1 removed.")
    assert ((repository / "a.txt").read_text(), (repository / "c.txt").exists()) == ("one\n", False)
    back = shlex.split(last.split("`")[1])
    assert terminal(*back[1:], "--yes").code == 0
    assert ((repository / "a.txt").read_text(), (repository / "c.txt").exists()) == ("by hand\n", True)
    found = terminal(*back[1:], "--json").json
    assert (found["plan"]["changed"], found["result"]) == ([], {})


@pytest.mark.usefixtures("repository")
def test_rewind_refuses_options_that_contradict_each_other(terminal: Terminal) -> None:
    work(terminal, ["Done."])
    for words in (["--plan", "--to", "3"], ["--here"], ["--here", "--to", "3", "--id", "x"], ["--snapshot", "ab"]):
        assert terminal("rewind", "s", *words).code == 2
    assert terminal("rewind", "s", "--here", "--snapshot", "f" * 40).code == 1


@pytest.mark.slow
@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("n\n", 1)])
def test_rewind_here_asks_at_a_terminal(terminal: Terminal, repository: Path, typed: str, code: int) -> None:
    work(terminal, [*FIRST, call(write("c.txt", "c\n")), "Done."])
    at = events(terminal, "tool")[0]
    with PseudoTerminal("rewind", "s", "--to", str(at), "--here", cwd=terminal.folder) as screen:
        shown = screen.until("Put these files back? [y/N]: ")
        assert "  removed  c.txt" in shown
        assert (repository / "c.txt").exists()
        screen.type(typed)
        assert screen.ended() == code
        assert ("takes this back" in screen.text) == (code == 0)
    assert (repository / "c.txt").exists() == (code == 1)
