"""A place of its own for every branch: made whole or not at all, and gone without a trace."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.agent.files import worktree
from perdure.agent.files.snapshot import Snapshots
from perdure.errors import Conflict, NotFound
from tests.agent.gitworld import git, live_and_die, photograph, repository, sweep, write


@pytest.mark.slow
def test_a_branch_begins_with_exactly_the_files_of_the_snapshot(folder: Path) -> None:
    mine, home = repository(folder / "mine"), folder / "home"
    (mine / "src" / "c.py").unlink()
    taken = Snapshots(mine, home).take("fork")
    before = photograph(mine)
    place = worktree.add(mine, home, "s-1/fix", snapshot=taken.commit)
    (mine / "noise.log").unlink()
    assert photograph(place, without=(".git",)).keys() - {".git"} == photograph(mine, without=(".git",)).keys()
    assert Snapshots(place, home).take("same").tree == taken.tree
    assert git(place, "rev-parse", "HEAD") == git(mine, "rev-parse", "HEAD")
    assert git(place, "status", "--porcelain").splitlines() == [
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
    place = worktree.add(mine, home, "fix", snapshot=taken.commit)
    write(place, {"work.txt": "work\n"})
    assert worktree.worktree_path(home, "fix") == place
    assert worktree.add(mine, home, "fix", snapshot=taken.commit) == place
    assert (place / "work.txt").read_text() == "work\n"
    with pytest.raises(Conflict):
        worktree.add(mine, home, "fix", snapshot=taken.tree)
    other = worktree.add(mine, home, "fix2", snapshot=taken.commit)
    worktree.remove(home, "fix")
    worktree.remove(home, "fix")
    assert not place.exists()
    assert other.exists()
    worktree.remove(home, "fix2")
    assert photograph(mine) == before
    assert worktree.worktree_path(home, "fix") is None


def test_a_folder_that_somebody_removed_is_said_to_be_gone(folder: Path) -> None:
    mine, home = repository(folder / "mine"), folder / "home"
    before = photograph(mine)
    place = worktree.add(mine, home, "fix")
    shutil.rmtree(place)
    with pytest.raises(NotFound, match="is gone"):
        worktree.add(mine, home, "fix")
    worktree.remove(home, "fix")
    assert photograph(mine) == before


def test_worktrees_of_a_person_are_left_alone(folder: Path) -> None:
    mine, home = repository(folder / "mine"), folder / "home"
    git(mine, "worktree", "add", "--quiet", str(folder / "theirs"))
    (folder / "theirs").rename(folder / "on another disk")
    before = photograph(mine)
    worktree.add(mine, home, "fix")
    worktree.remove(home, "fix")
    assert photograph(mine) == before


def test_a_commit_to_begin_at(folder: Path) -> None:
    mine, home = repository(folder / "mine"), folder / "home"
    first = git(mine, "rev-parse", "HEAD").strip()
    git(mine, "commit", "--quiet", "--all", "--message=second")
    place = worktree.add(mine, home, "fix", commit=first)
    assert (place / "src" / "b.py").read_text() == "x = 1\n"
    assert git(place, "status", "--porcelain") == ""


@pytest.mark.slow
def test_a_subfolder_is_branched_inside_its_repository(folder: Path) -> None:
    mine, home = repository(folder / "mine"), folder / "home"
    taken = Snapshots(mine / "src", home).take("fork")
    place = worktree.add(mine / "src", home, "fix", snapshot=taken.tree)
    assert place.name == "src"
    assert (place / "b.py").read_text() == "x = 3\n"
    assert (place.parent / "a.txt").read_text() == "one\n"


@pytest.mark.parametrize("unborn", [False, True])
def test_without_a_commit_the_place_is_a_plain_folder(folder: Path, unborn: bool) -> None:
    mine, home = folder / "mine", folder / "home"
    write(mine, {"a.txt": "one\n"})
    if unborn:
        git(mine, "init", "--quiet")
    taken = Snapshots(mine, home).take("fork")
    before = photograph(mine)
    place = worktree.add(mine, home, "fix", snapshot=taken.tree)
    assert photograph(place).keys() == {"a.txt"}
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


def test_publishing_names_what_was_committed_and_only_moves_forward(folder: Path) -> None:
    mine, home = repository(folder / "mine"), folder / "home"
    place = worktree.add(mine, home, "fix")
    write(place, {"a.txt": "fixed\n"})
    git(place, "commit", "--quiet", "--all", "--message=fixed")
    head = worktree.publish(home, "fix", "s-1")
    assert worktree.publish(home, "fix", "s-1") == head
    assert git(mine, "show", "perdure/s-1:a.txt") == "fixed\n"
    git(place, "commit", "--quiet", "--amend", "--message=other")
    with pytest.raises(Conflict):
        worktree.publish(home, "fix", "s-1")
    assert git(mine, "rev-parse", "perdure/s-1").strip() == head


@pytest.mark.slow
def test_a_kill_at_any_moment_of_adding_is_made_good_by_adding_again(folder: Path) -> None:
    mine, home = repository(folder / "mine"), folder / "home"
    taken = Snapshots(mine, home).take("fork")
    before = photograph(mine)

    def act(number: int) -> Callable[[], object]:
        return lambda: worktree.add(mine, home, f"fix-{number}", snapshot=taken.tree)

    def check(number: int) -> None:
        if number % 4 == 3:  # nobody adds it again; what is there of it goes
            worktree.remove(home, f"fix-{number}")
            assert photograph(mine) == before
        place = worktree.add(mine, home, f"fix-{number}", snapshot=taken.tree)
        assert Snapshots(place, home).take("same").tree == taken.tree
        assert "new.txt" in git(place, "status", "--porcelain")
        dying = number % 3 * 4 + 1
        live_and_die(lambda: worktree.remove(home, f"fix-{number}"), dying)
        worktree.remove(home, f"fix-{number}")
        assert not place.exists()
        assert photograph(mine) == before

    assert sweep(act, check) > 60


def test_nothing_is_left_of_a_half_added_worktree_of_git_itself(folder: Path) -> None:
    mine, home = repository(folder / "mine"), folder / "home"
    place = worktree.add(mine, home, "fix")
    record = place.with_name(f"{place.name}.json")
    record.write_text(record.read_text().replace('"is_ready":true', '"is_ready":false'))
    entry = mine / ".git" / "worktrees" / place.name
    (entry / "gitdir").unlink()
    (entry / "locked").write_text("initializing")
    (place / ".git").unlink()
    assert worktree.add(mine, home, "fix") == place
    assert git(place, "status", "--porcelain") == ""
    assert os.listdir(entry.parent) == [place.name]
