"""`perdure fork` of an agent: which files the branch begins with, and what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support.repositories import call, events, make_repository, work, write
from tests.cli.support.terminal import Terminal

SCRIPT = [call(write("b.txt", "b\n")), "Done."]


@pytest.mark.slow
def test_fork_reports_the_folder_of_the_branch(terminal: Terminal) -> None:
    make_repository(terminal.folder / "work")
    work(terminal, SCRIPT)
    cursor = terminal("show", "s", "--json").json["session"]["cursor"]
    said = terminal("fork", "s").out
    assert f"It gets its own folder, with the files as they were at event {cursor}.\n" in said
    assert "not in a git repository" not in said
    assert "Event 1 has no snapshot: its folder starts with the last commit" in terminal("fork", "s", "--at", "1").out
    between = events(terminal, "assistant")[0]
    assert "between" not in terminal("fork", "s", "--at", str(between)).out
    shown = terminal("show", "s", "--json", "--last", "100").json["events"]
    begun = next(one["number"] for one in shown if one["kind"] == "effect.dispatched" and one["number"] > between)
    assert f"Event {begun} is between a tool call and its result" in terminal("fork", "s", "--at", str(begun)).out


def test_fork_outside_git_reports_what_is_missing(terminal: Terminal) -> None:
    (terminal.folder / "plain").mkdir()
    work(terminal, SCRIPT, repo="plain")
    assert "The folder is not in a git repository: a branch gets a plain folder" in terminal("fork", "s").out


def test_fork_of_a_program_mentions_no_files(terminal: Terminal) -> None:
    terminal("run", "user_talk", "--id", "t", "--repo", str(Path.cwd()))
    assert "folder" not in terminal("fork", "t").out


@pytest.mark.databases("postgres")
def test_fork_without_a_folder_reports_the_setting(
    terminal: Terminal, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_repository(terminal.folder / "work")
    monkeypatch.setenv("PERDURE_STORE", target)
    work(terminal, SCRIPT)
    said = terminal("fork", "s", "--id", "b").out.splitlines()
    needed = "The branch needs its own folder. Set `artifacts` to a folder outside the repository first."
    assert said[-2:] == [needed, "Run `perdure resume b` to start it."]
    assert not any("cannot run" in line for line in said)
    monkeypatch.setenv("PERDURE_ARTIFACTS", str(terminal.folder / "artifacts"))
    assert terminal("resume", "b").code == 0
