"""Attack: the `.git` of a folder leads to another repository, so that git would read and commit there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from perdure.agent.commands import home_folders
from perdure.agent.files import worktree
from perdure.agent.files.snapshot import Snapshots
from perdure.agent.files.workspace import Workspace
from perdure.agent.git import command_line
from perdure.agent.git.head import head_of
from perdure.agent.tools import search_process
from perdure.errors import NotDone
from perdure.runtime.start.git_links import find_git_folders
from tests.agent.support.requirements import need_bubblewrap
from tests.agent.support.tool_calls import call, make_repository, run_git

WAYS = ["file", "link", "commondir", "refs", "objects", "HEAD", "core.worktree", "forged worktree", "forged submodule"]


def lead(root: Path, victim: Path, way: str) -> None:
    """Let the folder's `.git` lead to another repository."""
    git, theirs = root / ".git", victim / ".git"
    if way in ("file", "link", "forged worktree", "forged submodule"):
        shutil.rmtree(git)
    if way == "file":
        git.write_text(f"gitdir: {theirs}\n")
    elif way == "link":
        git.symlink_to(theirs)
    elif way == "commondir":
        (git / "commondir").write_text(f"{theirs}\n")
    elif way in ("refs", "objects", "HEAD"):
        shutil.rmtree(git / way) if (git / way).is_dir() else (git / way).unlink()
        (git / way).symlink_to(theirs / way)
    elif way == "core.worktree":
        with open(git / "config", "a") as config:
            config.write(f"[core]\nworktree = {root.parent}\n")
    else:
        forged = root / "forged"
        shutil.copytree(theirs, forged)
        git.write_text("gitdir: forged\n")
        if way == "forged worktree":
            (forged / "commondir").write_text(f"{theirs}\n")
            (forged / "gitdir").write_text(f"{git}\n")


@pytest.mark.parametrize("way", WAYS)
def test_a_git_folder_that_leads_to_another_repository_is_refused(way: str, repository: Path, folder: Path) -> None:
    victim = folder / "victim"
    make_repository(victim)
    lead(repository, victim, way)
    before = run_git(victim, "for-each-ref"), run_git(victim, "worktree", "list"), run_git(victim, "count-objects")
    (repository / "a.txt").write_text("two\n")
    for act, given in (("git_commit", {"message": "x"}), ("git_branch", {"name": "x"}), ("git_push", {})):
        with pytest.raises(NotDone, match=r"does not name this folder|not a git repository"):
            call(act, **given)
    assert command_line.find(repository) is None
    shots = Snapshots(repository, folder / "home")
    assert (shots.head(), shots.is_git) == (None, False)
    work_folder = worktree.add(repository, folder / "home", "branch", snapshot=shots.take("x").tree)
    assert (work_folder / "a.txt").read_text() == "two\n"
    after = run_git(victim, "for-each-ref"), run_git(victim, "worktree", "list"), run_git(victim, "count-objects")
    assert before == after


def test_a_worktree_and_a_submodule_are_followed(repository: Path, folder: Path) -> None:
    need_bubblewrap()
    other, library = folder / "other", folder / "library"
    make_repository(library)
    run_git(repository, "worktree", "add", "--quiet", "-b", "side", str(other))
    run_git(other, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "sub")
    for root in (other, other / "sub"):
        found = find_git_folders(root)
        assert found is not None
        assert command_line.find(root) is not None
        assert head_of(root) is not None
        with Workspace(root, session_uid="u").active():
            (root / "a.txt").write_text("two\n")
            assert "Committed" in call("git_commit", message="second").text


def test_a_moved_worktree_is_refused_until_it_is_repaired(repository: Path, folder: Path) -> None:
    run_git(repository, "worktree", "add", "--quiet", "-b", "side", str(folder / "other"))
    moved = (folder / "other").rename(folder / "moved")
    assert find_git_folders(moved) is None
    run_git(repository, "worktree", "repair", str(moved))
    assert find_git_folders(moved) is not None


def test_a_forged_worktree_shows_commands_no_folder_of_the_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, root = folder / "home", folder / "home/project"
    (home / ".ssh").mkdir(parents=True)
    (root / "forged").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    (root / ".git").write_text("gitdir: forged\n")
    (root / "forged/gitdir").write_text(f"{root}/.git\n")
    (root / "forged/commondir").write_text(f"{home}/.ssh\n")
    assert home / ".ssh" not in home_folders.readable(root)


def test_a_head_that_names_a_file_elsewhere_is_not_read(repository: Path, folder: Path) -> None:
    (folder / "outside/secret.txt").write_text("hush\n")
    (repository / ".git/HEAD").write_text("ref: refs/../../../outside/secret.txt\n")
    assert head_of(repository) is None


def test_search_follows_no_link_in_the_middle_of_a_path(work_folder: Path) -> None:
    """The link may have been put there after the files were listed."""
    (work_folder / "deep/folder").mkdir(parents=True)
    (work_folder / "deep/folder/a.txt").write_text("here\n")
    (work_folder / "deep/link").symlink_to(work_folder.parent / "outside")
    root = os.open(work_folder, os.O_RDONLY)
    try:
        assert search_process.read(root, b"deep/folder/a.txt") == b"here\n"
        assert search_process.read(root, b"deep/link/secret.txt") == b""
        assert search_process.read(root, b"../outside/secret.txt") == b""
    finally:
        os.close(root)
