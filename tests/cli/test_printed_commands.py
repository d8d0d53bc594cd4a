"""Commands that the command line prints can be run as they are printed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

import pytest

from perdure.cli.shell import Shell
from tests.cli.support.agents import AgentFolder, calls
from tests.cli.support.terminal import PROGRAMS_FILE, Terminal


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands that were printed."""
    found: list[str] = []
    original: Callable[..., str] = Shell.suggest

    def suggest(shell: Shell, *words: str, app: bool = False) -> str:
        found.append(original(shell, *words, app=app))
        return found[-1]

    monkeypatch.setattr(Shell, "suggest", suggest)
    return found


def run_as_printed(terminal: Terminal, command: str) -> int:
    name, *words = shlex.split(command)
    assert name == "perdure"
    said = terminal(*words)
    assert said.code in (0, 3), (command, said.err)
    return said.code


@pytest.mark.slow
@pytest.mark.parametrize(("program", "count"), [("user_amount", 3), ("user_gated", 2), ("user_unknown", 3)], ids=str)
def test_each_command_for_a_wait_ends_it(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, printed: list[str], program: str, count: int
) -> None:
    monkeypatch.delenv("PERDURE_STORE")
    monkeypatch.delenv("PERDURE_APP")
    options = ("--store", "own store.db", "--app", PROGRAMS_FILE)
    for nth in range(count):
        id = f"{program}-{nth}"
        assert terminal("run", program, "--id", id, *options).code == 3
        printed.clear()
        assert terminal("show", id, *options).code == 0
        assert len(printed) == count
        name, *words = shlex.split(printed[nth])
        monkeypatch.setenv("PERDURE_BY", f"person-{nth}")  # not who requested the approval
        said = terminal.process(*words)  # a process that has loaded nothing else
        assert (name, said.code) == ("perdure", 0)
        assert all(line.startswith("This store has no principals") for line in said.err.splitlines()), said.err
        assert terminal("show", id, "--json", *options).json["waits"] == []
        continues = re.search("`perdure (resume .*)`", said.out)
        assert continues is not None
        again = [PROGRAMS_FILE if word == "MODULE" else word for word in shlex.split(continues[1])]
        after = terminal(*again)
        assert after.code in (0, 1, 3), after.err  # a verdict of absent runs the tool again, which is in doubt again


def test_commands_of_an_agent_story_run(work: AgentFolder, printed: list[str]) -> None:
    """An agent is run, listed, branched and rewound; each printed command is accepted."""
    edit = ("edit_file", {"path": "a.py", "old": "x = 1", "new": "x = 2"})
    begin = work.script(calls("I edit.", edit), "Done.", "Again.", "Again.", "Again.")
    assert work(*begin).code == 0
    (effect,) = work("effects", "--tool", "edit_file", "--json").lines
    for words in (
        ("ls",), ("show", "one"), ("brief", "one"), ("effects", effect["id"]), ("approvals",), ("verify",),
        ("pause", "one"), ("show", "one"), ("resume", "one", "--plan"), ("fork", "one", "--id", "branch"),
        ("rewind", "one", "--to", "3", "--id", "back"), ("prune", "--dry-run"),
    ):  # fmt: skip
        work(*words)
    commands = [one for one in dict.fromkeys(printed) if "ID" not in shlex.split(one)]
    assert len(commands) >= 5
    for one in commands:
        run_as_printed(work.terminal, one)
