"""Approvals at a terminal: what is shown, which keys count, and what each answer covers."""

from __future__ import annotations

import io
import subprocess
import time
from pathlib import Path

import pytest

from perdure.cli.live.screen import Screen, make_screen
from perdure.cli.prompts.approval_prompt import QUIET, ApprovalPrompt
from perdure.cli.shell import Shell
from tests.cli.support.agents import AgentFolder, calls

TOUCH = ("run_command", {"command": "touch b"})


class Typing:
    """A person who types while a question is shown."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.unread = ""
        self.screen: Screen = make_screen(io.StringIO())
        self.screen.typed = lambda: (self.typed, "")
        self.typed = ""
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        self.prompt = ApprovalPrompt(Shell("memory:", json=False), None, None, self.screen, None)  # type: ignore[arg-type]
        self.prompt._quiet_since = self.now
        monkeypatch.setattr(self.prompt, "ask", lambda: None)

    def stash(self) -> bool:
        had, self.unread = bool(self.unread), ""
        return had

    def tick(self, seconds: float) -> bool:
        self.now += seconds
        self.prompt.tick(self.stash)
        return self.prompt.is_open


def test_answers_count_only_after_a_moment_without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    person = Typing(monkeypatch)
    assert not person.tick(QUIET / 2)
    for typed in ("y", "yo", "you"):  # the person is typing a message when the question appears
        person.typed = typed
        assert not person.tick(QUIET * 2)
    person.unread = "y"
    assert not person.tick(QUIET)  # keys that were not read yet
    assert not person.tick(QUIET / 2)
    assert person.tick(QUIET / 2)


@pytest.mark.slow
def test_exact_call_is_allowed_again_and_another_is_asked(work: AgentFolder) -> None:
    other = ("run_command", {"command": "touch c"})
    begin = work.script(calls("Once.", TOUCH), calls("Again.", TOUCH), calls("Another.", other), "Done.")
    with work.open_terminal(*begin, "--unsandboxed") as seat:
        seat.until("y/s/t/n/m > ")
        seat.type("s")
        seat.until("Another.")
        seat.until("y/s/t/n/m > ", times=2)
        assert seat.text.count("needs your approval") == 2
        assert seat.text.count('● run_command command="touch b"') == 2
        seat.type("n")
        seat.until("reason, or Enter for none > ")
        seat.type(" \n")
        seat.until("Done.")
    assert not (work.folder / "c").exists()
    (granted,) = work("exemptions", "--json").lines
    assert (granted["rule"], granted["tool"], granted["intent_digest"] is not None) == ("default", "run_command", True)
    (effect,) = work("effects", "--state", "refused", "--json").lines
    assert effect["error"]["message"] == "ada denied it, without a reason."


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True)


@pytest.mark.slow
def test_push_is_shown_with_its_address_and_commits(work: AgentFolder) -> None:
    remote = work.folder.with_name("remote.git")
    git(work.folder, "init", "--quiet", "--bare", "-b", "main", str(remote))
    git(work.folder, "init", "--quiet", "-b", "main")
    git(work.folder, "remote", "add", "origin", str(remote))
    for subject in ("First", "Second \x1b[31m"):
        git(work.folder, "commit", "--quiet", "--allow-empty", "-m", subject)
    begin = work.script(calls("I push.", ("git_push", {})), "Done.")
    with work.open_terminal(*begin, "--tool", "git_push") as seat:
        seat.until("y/s/t/n/m > ")
        seat.type("y")
        seat.until("Done.")
    lines = [line.split(maxsplit=1) for line in seat.text.splitlines()]
    at = lines.index(["commits", "2 commits"])
    assert [words[1] for words in lines[at + 1 : at + 3]] == ["Second \\x1b[31m", "First"]
    assert ["address", str(remote)] in lines
