"""What is recorded about a call, so that a person can judge it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure.agent.commands.sandbox import available
from perdure.agent.files.workspace import Workspace
from perdure.agent.toolbox import call_details
from perdure.agent.tools.push import COMMITS
from perdure.cli.text.intent import lines_of
from perdure.domain.effect import Effect
from perdure.ids import host
from perdure.runtime.runtime import open as open_runtime
from tests.agent.support.conversation import Conversation, calls
from tests.agent.support.git_repository import git, repository


def shown(tool: str, intent: dict[str, Any], about: dict[str, Any]) -> list[str]:
    given: dict[str, Any] = dict.fromkeys(Effect.__struct_fields__)
    return [str(line) for line in lines_of(Effect(**(given | {"tool": tool, "intent": intent})), 12, about=about)]


def space(folder: Path, **more: Any) -> Workspace:
    return Workspace(folder, session_uid="u", **more)


def test_command_is_shown_with_folder_sandbox_and_network(tmp_path: Path) -> None:
    about = call_details(space(tmp_path, network=True, unsandboxed=True), "run_command", {"command": "make"})
    level = available(tmp_path)
    assert about == {"host": host(), "folder": str(tmp_path), "sandbox": level, "network": "yes"}
    lines = shown("run_command", {"command": "make"}, about | {"sandbox": "none", "host": "far\x1b"})
    assert lines == [
        "    command  make",
        f"    folder   {tmp_path} on far\\x1b",
        "    sandbox  none: the command runs with all rights of the user",
        "    network  yes",
    ]


def test_edit_is_shown_with_line_numbers_and_the_lines_around_it(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("".join(f"line {number}\n" for number in range(1, 21)))
    edit = {"path": "a.py", "old": "line 10\nline 11", "new": "changed"}
    assert shown("edit_file", edit, call_details(space(tmp_path), "edit_file", edit)) == [
        "    path    a.py",
        f"    folder  {tmp_path}",
        "        7  line 7",
        "        8  line 8",
        "        9  line 9",
        "       10 -line 10",
        "       11 -line 11",
        "       10 +changed",
        "       11  line 12",
        "       12  line 13",
        "       13  line 14",
    ]


@pytest.mark.parametrize("path", ["missing.py", "../outside", "folder", ".git/config"])
def test_details_that_cannot_be_found_are_left_out(tmp_path: Path, path: str) -> None:
    (tmp_path / "folder").mkdir()
    edit = {"path": path, "old": "x", "new": "y"}
    assert call_details(space(tmp_path), "edit_file", edit).keys() == {"host", "folder"}
    assert call_details(space(tmp_path), "git_push", {"commit": "--output=x", "remote": "r"}).keys() == {
        "host",
        "folder",
    }


@pytest.mark.parametrize("known", [True, False])
def test_push_is_shown_with_the_commits_that_the_remote_lacks(tmp_path: Path, known: bool) -> None:
    made = repository(tmp_path / "repository", {"a.txt": "one\n"})
    git(made, "config", "log.showSignature", "true")
    before = git(made, "rev-parse", "HEAD").strip()
    git(made, "update-ref", "refs/remotes/origin/main", before)
    for number in range(COMMITS + 2):
        git(made, "commit", "--quiet", "--allow-empty", "-m", f"Change {number}\n\nbody\x1b[31m")
    commit = git(made, "rev-parse", "HEAD").strip()
    push = {"commit": commit, "remote": "origin", "remote_before": before if known else None}
    about = call_details(space(made), "git_push", push)
    assert (len(about["commits"]), about["count"]) == (COMMITS, COMMITS + 2)
    assert about["commits"][0].endswith(f"Change {COMMITS + 1}")
    lines = shown("git_push", push, about | {"commits": about["commits"][:2], "count": 2})
    assert [line.split()[-1] for line in lines[-3:]] == ["commits", str(COMMITS + 1), str(COMMITS)]


def test_an_edit_within_a_line_is_shown_as_the_whole_line(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\n    return max(prices)  # why\n")
    edit = {"path": "a.py", "old": "max(prices)", "new": "sum(prices)"}
    assert shown("edit_file", edit, call_details(space(tmp_path), "edit_file", edit))[-4:] == [
        "        1  one",
        "        2 -    return max(prices)  # why",
        "        2 +    return sum(prices)  # why",
        "        3  ",
    ]


async def test_details_are_recorded_with_the_request(conversation: Conversation, tmp_path: Path) -> None:
    command = ("run_command", {"command": "touch b"})
    conversation.declare([calls(command), "End."], ["run_command"], policy=lambda _: "ask")
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime, repository=tmp_path)
        (asked,) = session.waits
    assert asked.detail["about"]["folder"] == str(tmp_path)
    assert asked.detail["about"]["network"] == "no"
