"""The matrix of commands, judged by the policies that ship, with a summary."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

import pytest

from perdure.domain.policy import PROFILES, Facts, explain, shipped

MATRIX: dict[str, list[str]] = tomllib.loads(Path(__file__).with_name("commands.toml").read_text("utf-8"))
DOCUMENT = Path(__file__).parents[3] / "docs" / "how-to" / "commands-in-policies.md"
MOST_ASKED = 24  # of the harmless commands, by the default policy without a sandbox


def answer(profile: str, command: str) -> str:
    facts = Facts(tool="run_command", reach="machine", command=command, arguments={"command": command})
    return explain(shipped(profile), facts).judgement.answer


@pytest.mark.parametrize("profile", PROFILES)
def test_destructive_commands_are_denied_by_every_profile(profile: str) -> None:
    assert len(MATRIX["destructive"]) > 200
    wrong = {command: found for command in MATRIX["destructive"] if (found := answer(profile, command)) != "deny"}
    assert wrong == {}


@pytest.mark.parametrize("profile", ["default", "read-only", "workspace"])
def test_dangerous_commands_are_never_allowed_without_a_sandbox(profile: str) -> None:
    assert len(MATRIX["dangerous"]) > 200
    assert [command for command in MATRIX["dangerous"] if answer(profile, command) == "allow"] == []


def test_most_harmless_commands_are_not_asked() -> None:
    assert len(MATRIX["harmless"]) > 100
    found = {command: answer("default", command) for command in MATRIX["harmless"]}
    assert "deny" not in found.values()
    asked = [command for command, one in found.items() if one == "ask"]
    assert len(asked) <= MOST_ASKED, asked


def test_the_documentation_has_the_figures_of_the_matrix() -> None:
    for kind, listed in MATRIX.items():
        cells = [f"{kind}", str(len(listed))]
        for profile in PROFILES:
            count = Counter(answer(profile, command) for command in listed)
            shown = {"deny": "denied", "ask": "asked", "allow": "allowed"}
            cells.append(", ".join(f"{count[one]} {word}" for one, word in shown.items() if count[one]))
        assert f"| {' | '.join(cells)} |" in DOCUMENT.read_text("utf-8")


def test_matrix_prints_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    for profile in PROFILES:
        for kind, listed in MATRIX.items():
            count = Counter(answer(profile, command) for command in listed)
            print(f"{profile:10} {kind:12} {len(listed):4}  " + "  ".join(f"{k} {count[k]}" for k in sorted(count)))
    shown = capsys.readouterr().out
    with capsys.disabled():
        print(f"\n{shown}", end="")
    assert len(shown.splitlines()) == len(PROFILES) * len(MATRIX)
