"""`perdure fork` of an agent: which files the branch begins with, and what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.terminal import Terminal
from tests.cli.worktrees import call, events, make_repository, work, write

SCRIPT = [call(write("b.txt", "b\n")), "Done."]


@pytest.mark.slow
def test_a_branch_is_said_to_have_its_own_folder(terminal: Terminal) -> None:
    make_repository(terminal.folder / "work")
    work(terminal, SCRIPT)
    cursor = terminal("show", "s", "--json").json["session"]["cursor"]
    said = terminal("fork", "s").out
    assert f"It gets its own folder, with the files as they were at event {cursor}.\n" in said
    assert "not in a git repository" not in said
    assert "Event 1 has no snapshot: its folder starts with the last commit" in terminal("fork", "s", "--at", "1").out
    between = events(terminal, "assistant")[0]
    assert "between" not in terminal("fork", "s", "--at", str(between)).out
    begun = between + 1
    assert f"Event {begun} is between a tool call and its result" in terminal("fork", "s", "--at", str(begun)).out


def test_outside_git_what_is_missing_is_said(terminal: Terminal) -> None:
    (terminal.folder / "plain").mkdir()
    work(terminal, SCRIPT, repo="plain")
    assert "The folder is not in a git repository: a branch gets a plain folder" in terminal("fork", "s").out


def test_a_program_has_no_files(terminal: Terminal) -> None:
    terminal("run", "desk_talk", "--id", "t", "--repo", str(Path.cwd()))
    assert "folder" not in terminal("fork", "t").out


@pytest.mark.databases("postgres")
def test_a_fork_that_cannot_have_a_folder_says_what_to_set_first(
    terminal: Terminal, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_repository(terminal.folder / "work")
    monkeypatch.setenv("PERDURE_STORE", target)
    work(terminal, SCRIPT)
    said = terminal("fork", "s", "--id", "b").out.splitlines()
    needed = "The branch needs its own folder. Set `artifacts` to a folder outside the repository"
    assert said[-1] == f"{needed}, then `perdure resume b` runs it."
    assert not any("cannot run" in line for line in said)
    monkeypatch.setenv("PERDURE_ARTIFACTS", str(terminal.folder / "artifacts"))
    assert terminal("resume", "b").code == 0
