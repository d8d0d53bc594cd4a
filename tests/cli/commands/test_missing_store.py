"""A store whose database file is missing is not taken for a new one."""

from __future__ import annotations

from pathlib import Path

import pytest

import perdure
from perdure.errors import StoreUnavailable
from tests.cli.support.terminal import Terminal


@pytest.fixture
def path(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own store, with a frozen policy and no session."""
    monkeypatch.delenv("PERDURE_STORE")
    assert terminal("policy", "freeze", "--because", "an audit").code == 1  # it creates nothing
    assert terminal("policy", "set", "--profile", "full", "--because", "a start").code == 0
    assert terminal("policy", "freeze", "--because", "an audit").code == 0
    return terminal.folder / "data" / "perdure" / "perdure.db"


COMMANDS = (("ls",), ("ls", "--json"), ("policy",), ("run", "user_sleeper", "--id", "a"), ("doctor",))


def test_missing_database_is_not_taken_for_a_new_store(terminal: Terminal, path: Path) -> None:
    path.rename(gone := path.with_name("gone.db"))
    for words in COMMANDS:
        said = terminal(*words)
        assert said.code == 1
        assert f"The store {path} is missing, but files that belong to it are there ({path}.d)" in said.out + said.err
        assert not path.exists()
    assert f" hint: Put the file back, or restore a backup. For a new, empty store, first move {path}.d away." in (
        terminal("policy").err
    )
    gone.rename(path)
    assert "frozen" in terminal("policy").out
    (old := path.with_name("old")).mkdir()
    for one in path.parent.glob("perdure.db*"):
        one.rename(old / one.name)
    assert "There are no sessions yet" in terminal("ls").out
    assert terminal("run", "user_sleeper", "--id", "a").code == 0


@pytest.mark.parametrize("end", ["-wal", "-shm"])
async def test_log_without_its_database_is_not_a_new_store(folder: Path, end: str) -> None:
    path = folder / "perdure.db"
    Path(f"{path}{end}").write_bytes(b"")
    with pytest.raises(StoreUnavailable, match=f"perdure.db is missing.*{end}"):
        async with perdure.open(path):
            pass
    assert [one.name for one in folder.iterdir()] == [f"perdure.db{end}"]
