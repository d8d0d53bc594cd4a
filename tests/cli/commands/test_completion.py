"""Shell completion: the scripts, and the ids that come from the store."""

from __future__ import annotations

import pytest

from tests.cli.support.terminal import Terminal


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(terminal: Terminal, shell: str) -> None:
    said = terminal("completion", shell)
    assert (said.code, "_PERDURE_COMPLETE" in said.out, said.err) == (0, True, "")
    assert terminal("completion", shell, "--json").json["shell"] == shell
    assert terminal("completion", "csh").code == 2


def completed(terminal: Terminal, monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str]:
    with monkeypatch.context() as patch:
        patch.setenv("_PERDURE_COMPLETE", "bash_complete")
        patch.setenv("COMP_WORDS", " ".join(("perdure", *words)))
        patch.setenv("COMP_CWORD", str(len(words)))
        return [line.partition(",")[2] for line in terminal.process().out.split()]


@pytest.mark.slow
def test_ids_and_commands_are_completed(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    assert completed(terminal, monkeypatch, "attach", "t") == []  # there is no store, and none is made
    assert not (terminal.folder / "perdure.db").exists()
    for id in ("talk-1", "talk-2", "other"):
        terminal("run", "user_talk", "--id", id)
    assert completed(terminal, monkeypatch, "attach", "talk") == ["talk-1", "talk-2"]
    assert completed(terminal, monkeypatch, "cancel", "o") == ["other"]
    assert completed(terminal, monkeypatch, "approve", "o") == []
    assert "attach" in completed(terminal, monkeypatch, "at")
