"""Shell completion: the scripts, and what a real bash completes with them."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.cli.support.pseudo_terminal import PseudoTerminal
from tests.cli.support.terminal import PERDURE, Terminal

SCRIPT = """
PATH={bin}:$PATH
eval "$(perdure completion bash)"
COMP_LINE={line}
COMP_POINT=${{#COMP_LINE}}
_perdure_completion perdure
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(terminal: Terminal, shell: str) -> None:
    said = terminal("completion", shell)
    assert (said.code, "_PERDURE_COMPLETE" in said.out, said.err) == (0, True, "")
    assert terminal("completion", shell, "--json").json["shell"] == shell
    assert terminal("completion", "csh").code == 2


def completed(line: str) -> list[str]:
    """What bash offers for a line, with the cursor at its end."""
    script = SCRIPT.format(bin=shlex.quote(str(Path(PERDURE).parent)), line=shlex.quote(f"perdure {line}"))
    ended = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, text=True, timeout=180, env=dict(os.environ), check=True
    )
    assert ended.stderr == ""
    return ended.stdout.split()


def test_bash_completes_commands_and_options(terminal: Terminal) -> None:
    assert completed("appr") == ["approvals", "approve"]
    assert completed("--sto") == ["--store"]
    assert completed("ls --js") == ["--json"]
    assert completed("facts for") == ["forget"]
    assert completed("attach t") == []  # there is no store, and none is made
    assert not (terminal.folder / "perdure.db").exists()


@pytest.mark.slow
def test_bash_completes_session_ids(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    for id in ("talk-1", "talk-2", "other", "pr:7@x"):
        terminal("run", "user_talk", "--id", id)
    assert completed("attach talk") == ["talk-1", "talk-2"]
    assert completed("effects --session o") == ["other"]
    assert completed("show 'oth") == ["other"]
    assert completed("show pr:7") == ["7@x"]  # bash replaces what follows the colon
    assert completed("approve o") == []
    assert "other" in completed("decisions ")
    assert "settle" in completed("decisions s")
    monkeypatch.delenv("PERDURE_STORE")
    assert completed("show o") == []
    assert completed("--store=perdure.db show o") == ["other"]
    assert completed("show --store perdure.db o") == ["other"]


@pytest.mark.slow
def test_bash_completes_ids_of_effects_approvals_and_questions(terminal: Terminal) -> None:
    terminal.run("user_review", "r")
    question = terminal.wait_of("r")
    assert completed("answer ") == [question, "r"]
    assert terminal("answer", "r", "yes").code == 0
    assert terminal("resume", "r").code == 3
    (approval,) = terminal("approvals", "--json").lines
    assert completed("approve a-") == [approval["id"]]
    assert completed("deny ") == [approval["id"], "r"]
    assert completed("approvals a") == [approval["id"]]
    terminal.arm()
    terminal.process("run", "user_release", f"folder={terminal.folder}", "--id", "x")
    assert terminal("resume", "x").code == 3
    (doubtful,) = terminal("effects", "--in-doubt", "--json").lines
    assert completed("settle ") == [doubtful["id"]]
    assert doubtful["id"] in completed("effects e-")
    assert doubtful["id"] in completed("show x --effect ")
    (done,) = terminal("effects", "--tool", "user_post", "--json").lines
    assert completed("undo ") == [done["id"]]


@pytest.mark.slow
def test_tab_key_completes_at_a_terminal(terminal: Terminal) -> None:
    """A person presses the tab key in an interactive bash."""
    terminal("run", "user_talk", "--id", "conversation")
    path = f"{Path(PERDURE).parent}:{os.environ['PATH']}"
    bash = ("--norc", "--noprofile", "-i")
    with PseudoTerminal(*bash, cwd=terminal.folder, program="/bin/bash", PATH=path, PS1="$ ", TERM="dumb") as seat:
        seat.until("$ ")
        seat.type('eval "$(perdure completion bash)"; echo rea""dy\n')
        seat.until("ready")
        seat.type("perdure show conv\t")
        assert "perdure show conversation" in seat.until("perdure show conversation")
        seat.type("\x03")
