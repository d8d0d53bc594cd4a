"""`perdure effects EFFECT`, `perdure show --effect`, and `perdure artifacts`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.support.agents import AgentFolder, calls
from tests.cli.support.pseudo_terminal import PseudoTerminal
from tests.cli.support.terminal import PERDURE, Terminal

LONG = (
    "i=0; while [ $i -lt 3000 ]; do echo line $i of the output; i=$((i+1)); done; printf 'the \\033[31mend\\n'; exit 3"
)


@pytest.fixture
def effect(work: AgentFolder) -> str:
    """The effect of a command that printed a lot, changed a file and failed."""
    started = work.script(calls("I run.", ("run_command", {"command": f"echo x = 2 > a.py; {LONG}"})), "It failed.")
    assert work(*started, "--allow", "run_command").code == 0
    (found,) = [one["id"] for one in work("effects", "--tool", "run_command", "--json").lines]
    return str(found)


def test_effect_is_shown_with_its_whole_output_and_its_files(work: AgentFolder, effect: str) -> None:
    for command in (("effects", effect[:-2]), ("show", "one", "--effect", effect)):
        shown = work(*command)
        assert (shown.code, shown.err) == (0, "")
        assert "exit 3" in shown.out  # the reference
        assert all(f"    line {n} of the output\n" in shown.out for n in (0, 1500, 2999))
        assert "the \\x1b[31mend" in shown.out
        assert "\x1b" not in shown.out
        assert "1  acknowledged" in shown.out
        assert "a.py | 2 +-" in shown.out
        assert "`perdure diff one --from" in shown.out


def test_effect_as_json_has_its_attempts_output_and_diff(work: AgentFolder, effect: str) -> None:
    shown = work("effects", effect, "--json").json
    assert (shown["id"], shown["session"], shown["state"]) == (effect, "one", "acknowledged")
    assert [one["outcome"] for one in shown["attempts"]] == ["acknowledged"]
    assert shown["output"].endswith("line 2999 of the output\nthe \x1b[31mend\n")
    assert "+x = 2" in shown["files"]["text"]
    assert shown["unreadable"] == []


def test_missing_or_damaged_output_does_not_hide_the_rest_of_an_effect(work: AgentFolder, effect: str) -> None:
    digest = work("effects", effect, "--json").json["output_artifact"]
    path = next(Path(work.terminal.folder).glob(f"**/artifacts/{digest[:2]}/{digest}"))
    path.chmod(0o600)
    path.write_bytes(b"changed")
    assert (
        f"The whole output cannot be read: Artifact {digest[:12]} does not match its digest."
        in work("effects", effect).out
    )
    cat = work("artifacts", "cat", digest)
    assert (cat.code, cat.out, "[damaged]" in cat.err) == (1, "", True)
    got = work("artifacts", "get", digest, "copy")
    assert (got.code, Path("copy").exists(), list(Path().glob(".copy*"))) == (1, False, [])
    path.unlink()
    shown = work("effects", effect)
    assert "is not here" in shown.out
    assert "line 2 of the output" in shown.out
    assert (work("artifacts", "cat", digest).code, work("artifacts", "ls", "one").out.split()[-1]) == (1, "no")


def test_unknown_effect_or_one_of_another_session_is_not_found(terminal: Terminal) -> None:
    assert terminal.run("user_release", "release-1").code == 0
    (effect,) = [one["id"] for one in terminal("effects", "--json").lines]
    assert terminal("run", "user_sleeper", "--id", "other").code == 0
    for command in (("effects", "nothing"), ("show", "other", "--effect", effect)):
        shown = terminal(*command)
        assert (shown.code, "[not-found]" in shown.err) == (1, True)
    assert "deployed to prod" in terminal("effects", effect).out


def test_artifact_is_printed_unchanged_into_a_pipe_and_harmless_on_a_terminal(work: AgentFolder, effect: str) -> None:
    (listed,) = work("artifacts", "ls", "one", "--json").lines
    digest, prefix = listed["digest"], listed["digest"][:8]
    assert (listed["session"], listed["here"]) == ("one", True)
    assert digest[:16] in work("artifacts").out
    piped = subprocess.run([PERDURE, "artifacts", "cat", prefix], capture_output=True, timeout=180, check=True).stdout
    assert piped.endswith(b"the \x1b[31mend\n")
    assert len(piped) == listed["size"]
    assert work("artifacts", "get", prefix, "copy").code == 0
    assert Path("copy").read_bytes() == piped
    assert work("artifacts", "get", prefix, "copy").code == 2  # it never overwrites a file
    with PseudoTerminal("artifacts", "cat", prefix, cwd=work.terminal.folder) as seat:
        seat.until("the \\x1b[31mend")
    assert work("artifacts", "cat", prefix, "--json").json["size"] == listed["size"]


def test_artifact_is_named_by_a_prefix_that_is_unique(work: AgentFolder, effect: str) -> None:
    for prefix in ("", "nothing"):
        assert "[not-found]" in work("artifacts", "cat", prefix).err


def test_failed_command_is_shown_by_the_end_of_its_output(work: AgentFolder) -> None:
    command = "i=0; while [ $i -lt 30 ]; do echo line $i; i=$((i+1)); done; echo the reason; exit 3"
    started = work.script(calls("I run.", ("run_command", {"command": command})), "It failed.")
    with work.open_terminal(*started, "--allow", "run_command") as seat:
        seat.until("It failed.")
        shown = seat.text
    assert "    exit 3\n" in shown
    assert "    line 29\n    the reason\n" in shown
    assert "line 0\n" not in shown
    (effect,) = [one["id"] for one in work("effects", "--tool", "run_command", "--json").lines]
    assert f"`perdure effects {effect}` shows all" in shown
    assert "happened: exit 3 … the reason" in work("show", "one", "--last", "100").out
