"""Worktrees of branches: made whole or not at all, and removed without a trace."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.agent.files import worktree
from perdure.agent.files.snapshot import Snapshots
from perdure.errors import Conflict, NotFound
from tests.agent.support.git_repository import git, live_and_die, photograph, repository, sweep, write


@pytest.mark.slow
def test_a_branch_begins_with_exactly_the_files_of_the_snapshot(folder: Path) -> None:
    mine, home = repository(folder / "mine"), folder / "home"
    (mine / "src" / "c.py").unlink()
    taken = Snapshots(mine, home).take("fork")
    before = photograph(mine)
    work_folder = worktree.add(mine, home, "s-1/fix", snapshot=taken.commit)
    (mine / "noise.log").unlink()
    assert photograph(work_folder, without=(".git",)).keys() - {".git"} == photograph(mine, without=(".git",)).keys()
    assert Snapshots(work_folder, home).take("same").tree == taken.tree
    assert git(work_folder, "rev-parse", "HEAD") == git(mine, "rev-parse", "HEAD")
    assert git(work_folder, "status", "--porcelain").splitlines() == [
        *(" M src/b.py", " D src/c.py"),
        *("?? new.txt", "?? staged.txt"),
    ]
    write(mine, {"noise.log": "ignored\n"})
    assert photograph(mine, without=(".git/worktrees",)) == before, "the entry of the worktree is all there is"
    assert git(mine, "branch", "--list").split() == ["*", "main"]


@pytest.mark.slow
def test_adding_again_changes_nothing_and_removing_again_is_fine(folder: Path) -> None:
    mine, home = repository(folder / "mine"), folder / "home"
    taken = Snapshots(mine, home).take("fork")
    before = photograph(mine)
    work_folder = worktree.add(mine, home, "fix", snapshot=taken.commit)
    write(work_folder, {"work.txt": "work\n"})
    assert worktree.worktree_path(home, "fix") == work_folder
    assert worktree.add(mine, home, "fix", snapshot=taken.commit) == work_folder
    assert (work_folder / "work.txt").read_text() == "work\n"
    with pytest.raises(Conflict):
        worktree.add(mine, home, "fix", snapshot=taken.tree)
    other = worktree.add(mine, home, "fix2", snapshot=taken.commit)
    worktree.remove(home, "fix")
    worktree.remove(home, "fix")
    assert not work_folder.exists()
    assert other.exists()
    worktree.remove(home, "fix2")
    assert photograph(mine) == before
    assert worktree.worktree_path(home, "fix") is None


def test_a_removed_folder_is_reported_as_missing(folder: Path) -> None:
    mine, home = repository(folder / "mine"), folder / "home"
    before = photograph(mine)
    work_folder = worktree.add(mine, home, "fix")
    shutil.rmtree(work_folder)
    with pytest.raises(NotFound, match="is gone"):
        worktree.add(mine, home, "fix")
    worktree.remove(home, "fix")
    assert photograph(mine) == before


def test_worktrees_of_the_user_are_left_alone(folder: Path) -> None:
    mine, home = repository(folder / "mine"), folder / "home"
    git(mine, "worktree", "add", "--quiet", str(folder / "theirs"))
    (folder / "theirs").rename(folder / "on another disk")
    before = photograph(mine)
    worktree.add(mine, home, "fix")
    worktree.remove(home, "fix")
    assert photograph(mine) == before


def test_a_worktree_can_start_at_a_commit(folder: Path) -> None:
    mine, home = repository(folder / "mine"), folder / "home"
    first = git(mine, "rev-parse", "HEAD").strip()
    git(mine, "commit", "--quiet", "--all", "--message=second")
    work_folder = worktree.add(mine, home, "fix", commit=first)
    assert (work_folder / "src" / "b.py").read_text() == "x = 1\n"
    assert git(work_folder, "status", "--porcelain") == ""


@pytest.mark.slow
def test_a_subfolder_is_branched_inside_its_repository(folder: Path) -> None:
    mine, home = repository(folder / "mine"), folder / "home"
    taken = Snapshots(mine / "src", home).take("fork")
    work_folder = worktree.add(mine / "src", home, "fix", snapshot=taken.tree)
    assert work_folder.name == "src"
    assert (work_folder / "b.py").read_text() == "x = 3\n"
    assert (work_folder.parent / "a.txt").read_text() == "one\n"


@pytest.mark.parametrize("unborn", [False, True])
def test_without_a_commit_the_worktree_is_a_plain_folder(folder: Path, unborn: bool) -> None:
    mine, home = folder / "mine", folder / "home"
    write(mine, {"a.txt": "one\n"})
    if unborn:
        git(mine, "init", "--quiet")
    taken = Snapshots(mine, home).take("fork")
    before = photograph(mine)
    work_folder = worktree.add(mine, home, "fix", snapshot=taken.tree)
    assert photograph(work_folder).keys() == {"a.txt"}
    with pytest.raises(NotFound):
        worktree.publish(home, "fix", "s-1")
    worktree.remove(home, "fix")
    assert photograph(mine) == before


@pytest.mark.slow
def test_no_hook_runs_and_a_worktree_can_be_branched_itself(folder: Path) -> None:
    mine, home = repository(folder / "mine"), folder / "home"
    hook = mine / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {folder}/hooked\n")
    hook.chmod(0o755)
    before = photograph(mine)
    first = worktree.add(mine, home, "one", snapshot=Snapshots(mine, home).take("fork").tree)
    write(first, {"one.txt": "one\n"})
    second = worktree.add(first, home, "two", snapshot=Snapshots(first, home).take("fork").tree)
    assert (second / "one.txt").read_text() == "one\n"
    worktree.remove(home, "one")
    worktree.remove(home, "two")
    assert photograph(mine) == before
    assert not (folder / "hooked").exists()


def test_publishing_moves_the_branch_forward_only(folder: Path) -> None:
    mine, home = repository(folder / "mine"), folder / "home"
    work_folder = worktree.add(mine, home, "fix")
    write(work_folder, {"a.txt": "fixed\n"})
    git(work_folder, "commit", "--quiet", "--all", "--message=fixed")
    head = worktree.publish(home, "fix", "s-1")
    assert worktree.publish(home, "fix", "s-1") == head
    assert git(mine, "show", "perdure/s-1:a.txt") == "fixed\n"
    git(work_folder, "commit", "--quiet", "--amend", "--message=other")
    with pytest.raises(Conflict):
        worktree.publish(home, "fix", "s-1")
    assert git(mine, "rev-parse", "perdure/s-1").strip() == head


@pytest.mark.slow
def test_adding_a_worktree_killed_at_any_moment_can_be_repeated(folder: Path) -> None:
    mine, home = repository(folder / "mine"), folder / "home"
    taken = Snapshots(mine, home).take("fork")
    before = photograph(mine)

    def act(number: int) -> Callable[[], object]:
        return lambda: worktree.add(mine, home, f"fix-{number}", snapshot=taken.tree)

    def check(number: int) -> None:
        if number % 4 == 3:  # it is not added again; the partial worktree is removed
            worktree.remove(home, f"fix-{number}")
            assert photograph(mine) == before
        work_folder = worktree.add(mine, home, f"fix-{number}", snapshot=taken.tree)
        assert Snapshots(work_folder, home).take("same").tree == taken.tree
        assert "new.txt" in git(work_folder, "status", "--porcelain")
        dying = number % 3 * 4 + 1
        live_and_die(lambda: worktree.remove(home, f"fix-{number}"), dying)
        worktree.remove(home, f"fix-{number}")
        assert not work_folder.exists()
        assert photograph(mine) == before

    assert sweep(act, check) > 60


def test_a_partial_git_worktree_is_removed_completely(folder: Path) -> None:
    mine, home = repository(folder / "mine"), folder / "home"
    work_folder = worktree.add(mine, home, "fix")
    record = work_folder.with_name(f"{work_folder.name}.json")
    record.write_text(record.read_text().replace('"is_ready":true', '"is_ready":false'))
    entry = mine / ".git" / "worktrees" / work_folder.name
    (entry / "gitdir").unlink()
    (entry / "locked").write_text("initializing")
    (work_folder / ".git").unlink()
    assert worktree.add(mine, home, "fix") == work_folder
    assert git(work_folder, "status", "--porcelain") == ""
    assert os.listdir(entry.parent) == [work_folder.name]
