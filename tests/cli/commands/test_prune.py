"""`perdure prune` and the folders of branches that were cancelled, as a person reads it."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.agent.support.git_repository import git, sweep
from tests.cli.support.repositories import branch, call, make_repository, work, write
from tests.cli.support.terminal import Terminal

SCRIPT = ["Hello.", call(write("b.txt", "b\n")), "Done.", "Again."]


@pytest.fixture
def repository(terminal: Terminal) -> Path:
    return make_repository(terminal.folder / "work")


def place(terminal: Terminal, name: str = "b") -> Path:
    (effect,) = [one for one in terminal("effects", "--json").lines if one["tool"] == "open_worktree"]
    return Path(str(effect["result"]).strip('"'))


def age(terminal: Terminal) -> None:
    """Let everything that was kept be older than the grace."""
    then = time.time() - 7200
    for path in terminal.folder.glob("perdure.db.d/snapshots/*/git/objects/**/*"):
        os.utime(path, (then, then))


@pytest.mark.slow
def test_cancel_removes_the_folder_of_a_branch(terminal: Terminal, repository: Path) -> None:
    work(terminal, SCRIPT)
    branch(terminal)
    folder = place(terminal)
    said = terminal("cancel", "b")
    assert said.out.splitlines() == ["Session b is cancelled.", f"Its folder {folder} is removed."]
    assert not folder.exists()
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert terminal("merge", "b").code == 0
    assert (repository / "b.txt").read_text() == "b\n"


@pytest.mark.slow
def test_folder_with_unique_content_is_kept(terminal: Terminal, repository: Path) -> None:
    work(terminal, SCRIPT)
    branch(terminal)
    folder = place(terminal)
    (folder / "by-hand.txt").write_text("mine\n")
    said = terminal("cancel", "b").out.splitlines()
    assert said[1:] == [
        f"The folder of b is kept, {folder}: it holds changes that its last snapshot does not.",
        f"`git worktree remove --force {folder}` removes it anyway.",
    ]
    assert (folder / "by-hand.txt").exists()
    assert said[1] in terminal("prune").out
    subprocess.run(["git", "worktree", "remove", "--force", str(folder)], cwd=repository, check=True)
    assert "stays" not in terminal("prune").out


@pytest.mark.slow
def test_folder_with_unique_commits_is_kept(terminal: Terminal, repository: Path) -> None:
    work(terminal, SCRIPT)
    branch(terminal)
    folder = place(terminal)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=in the branch")
    assert "it holds commits that no branch names" in terminal("cancel", "b").out
    git(repository, "branch", "mine", git(folder, "rev-parse", "HEAD").strip())
    assert f"removed: the folder of b, {folder}" in terminal("prune").out
    assert not folder.exists()


@pytest.mark.slow
@pytest.mark.databases("sqlite", "postgres")
def test_unused_snapshots_are_shown_and_removed(
    terminal: Terminal, repository: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_STORE", target)
    monkeypatch.setenv("PERDURE_ARTIFACTS", str(terminal.folder / "perdure.db.d"))
    work(terminal, SCRIPT)
    branch(terminal)
    terminal("fork", "b", "--id", "c")
    (repository / "big.bin").write_bytes(os.urandom(100_000))
    assert terminal("merge", "b").code == 0  # it takes a snapshot that its effect names
    (repository / "big.bin").write_bytes(os.urandom(100_000))
    assert terminal("merge", "b").code == 0
    age(terminal)
    planned = terminal("prune", "--plan", "--json").json
    assert (planned["plan"], planned["folders"]) == (True, [])
    (found,) = planned["repositories"].values()
    (done,) = terminal("prune", "--json").json["repositories"].values()
    assert (done["kept"], done["dropped"], done["missing"]) == (found["kept"], found["dropped"], [])
    assert terminal("diff", "b").out
    assert terminal("merge", "b").code == 0
    terminal("cancel", "b")
    assert terminal("prune", "--ended", "0s", "--plan").out.splitlines()[-1].startswith("Nothing was removed. ")
    age(terminal)
    assert terminal("prune", "--ended", "0s").code == 0
    assert terminal("resume", "c").code == 0  # what it was forked from is there
    assert terminal("diff", "s").code == 0


@pytest.mark.slow
def test_prune_removes_what_its_plan_shows(terminal: Terminal, repository: Path) -> None:
    work(terminal, SCRIPT)
    branch(terminal)
    assert terminal("merge", "b").code == 0
    terminal("cancel", "b")
    terminal("cancel", "s")
    terminal("resume", "s")
    age(terminal)
    (planned,) = terminal("prune", "--ended", "0s", "--plan", "--json").json["repositories"].values()
    (done,) = terminal("prune", "--ended", "0s", "--json").json["repositories"].values()
    assert planned["dropped"] == done["dropped"] > 0
    assert (repository / "b.txt").exists()


@pytest.mark.slow
def test_partly_removed_folder_is_not_treated_as_files(terminal: Terminal, repository: Path) -> None:
    from perdure.agent.files import worktree

    home = terminal.folder / "home"

    def act(number: int) -> object:
        name = f"b{number}"
        worktree.add(repository, home, name)
        return lambda: worktree.remove(home, name)

    def check(number: int) -> None:
        name = f"b{number}"
        folder = worktree.worktree_path(home, name)
        assert folder is None or (folder / "a.txt").exists()
        worktree.remove(home, name)
        assert len(git(repository, "worktree", "list").splitlines()) == 1

    assert sweep(act, check) > 5  # type: ignore[arg-type]
