"""Objects borrowed from the user's repository during a snapshot are copied, so the repository may delete them later."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from perdure.agent.files.snapshot import Snapshots
from tests.agent.files.test_snapshot import contents
from tests.agent.support.git_repository import git, live_and_die, repository, write


def forget(mine: Path) -> None:
    """Amend every commit away, with all that it held, and let git really collect what nothing names any more."""
    git(mine, "reset", "--quiet", "--soft", git(mine, "rev-list", "--max-parents=0", "HEAD").strip())
    git(mine, "rm", "--quiet", "-r", "--cached", ".")
    git(mine, "commit", "--quiet", "--amend", "--allow-empty", "--message=amended")
    git(mine, "reflog", "expire", "--expire=now", "--all")
    git(mine, "gc", "--quiet", "--prune=now")
    left = git(mine, "cat-file", "--batch-all-objects", "--batch-check=%(objecttype)").split()
    assert sorted(left) == ["commit", "tree"]


@pytest.mark.slow
def test_a_snapshot_survives_garbage_collection_of_an_amended_commit(folder: Path) -> None:
    mine = repository(folder / "mine")
    snapshots = Snapshots(mine, folder / "home")
    first = snapshots.take("first")
    held = contents(snapshots, first.tree)
    forget(mine)
    assert contents(snapshots, first.tree) == held
    write(mine, {"a.txt": "two\n"})
    second = snapshots.take("second")
    assert second.files_changed == 1
    (mine / "a.txt").unlink()
    snapshots.check_out(first.commit)
    assert (mine / "a.txt").read_text() == "one\n"


@pytest.mark.slow
@pytest.mark.parametrize("many", [3, 400])
def test_commits_made_by_a_command_are_in_the_snapshot(folder: Path, many: int) -> None:
    mine = repository(folder / "mine")
    snapshots = Snapshots(mine, folder / "home")
    snapshots.take("first")
    write(mine, {f"made/{number}.txt": f"number {number}\n" for number in range(many)})
    git(mine, "add", "--all")
    git(mine, "commit", "--quiet", "--message=by a command")
    second = snapshots.take("second")
    held = contents(snapshots, second.tree)
    assert len(held) == many + 6
    forget(mine)
    assert contents(snapshots, second.tree) == held
    assert snapshots.take("same").commit == second.commit


@pytest.mark.slow
def test_snapshots_of_a_worktree_borrow_objects_of_its_commit(folder: Path) -> None:
    mine, work_folder = repository(folder / "mine"), folder / "place"
    git(mine, "worktree", "add", "--quiet", "--detach", str(work_folder))
    snapshots = Snapshots(work_folder, folder / "home")
    taken = snapshots.take("there")
    held = contents(snapshots, taken.tree)
    git(mine, "worktree", "remove", str(work_folder))
    forget(mine)
    again = Snapshots(mine, folder / "home")
    assert contents(again, taken.tree) == held


def test_objects_are_stored_once_and_checked_once(folder: Path) -> None:
    mine = repository(folder / "mine")
    snapshots = Snapshots(mine, folder / "home")
    trees = []
    for number in range(6):
        write(mine, {"a.txt": f"{number % 2}\n"})
        trees.append(snapshots.take("again and again").tree)
    assert len(set(trees)) == 2
    assert len(list((folder / "home").glob("git/objects/pack/*.pack"))) <= 1
    count = ["git", "count-objects", "--verbose"]
    said = subprocess.run(count, cwd=folder / "home" / "git", capture_output=True, text=True, check=True).stdout
    assert "prune-packable: 0" in said


@pytest.mark.slow
def test_objects_collected_during_a_snapshot_are_written_from_the_folder(folder: Path) -> None:
    mine = repository(folder / "mine")
    write(mine, {"a.txt": "lent\n"})
    git(mine, "add", "a.txt")
    for fatal in range(8, 60, 4):  # a kill after the index names what is lent, and before it is ours
        home = folder / f"home-{fatal}"
        died, _ = live_and_die(lambda at=home: Snapshots(mine, at).take("killed"), fatal, alone=True)  # type: ignore[misc]
        if not died:
            break
    homes = list(folder.glob("home-*"))
    assert len(homes) > 4
    forget(mine)
    for home in homes:
        later = Snapshots(mine, home)
        later.prune([], grace=0)
        assert contents(later, later.take("after").tree)["a.txt"] == b"lent\n"
