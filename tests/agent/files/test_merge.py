"""Merges of a branch, file by file: conflicts are returned, and a killed merge can be repeated."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.agent.files import worktree
from perdure.agent.files.merge import MergeConflict, merge_into
from perdure.agent.files.snapshot import Snapshots
from perdure.errors import Conflict
from tests.agent.support.git_repository import Photograph, git, photograph, repository, sweep, write

LINES = "".join(f"line {number}\n" for number in range(20))


class Scene:
    """A folder and a branch of it, both changed since."""

    def __init__(self, folder: Path) -> None:
        files = {"a.txt": LINES, "b.txt": "b\n", "c.txt": "c\n", "d/e.txt": "e\n", ".gitignore": "*.log\n"}
        self.mine = repository(folder / "mine", files)
        self.home = folder / "home"
        self.parent = Snapshots(self.mine, self.home)
        self.base = self.parent.take("fork").commit
        self.place = worktree.add(self.mine, self.home, "fix", snapshot=self.base)
        self.branch = Snapshots(self.place, self.home)

    def files(self) -> Photograph:
        return photograph(self.mine, without=(".git",))


@pytest.mark.slow
def test_changes_of_both_sides_are_merged(folder: Path) -> None:
    scene = Scene(folder)
    write(scene.place, {"a.txt": LINES.replace("line 2\n", "theirs\n"), "new/x.txt": "x\n", "x.log": "ignored\n"})
    (scene.place / "b.txt").unlink()
    (scene.place / "c.txt").chmod(0o755)
    write(scene.mine, {"a.txt": LINES.replace("line 18\n", "ours\n"), "ours.txt": "ours\n"})
    index = photograph(scene.mine / ".git")
    ours, theirs = scene.parent.take("home").tree, scene.branch.take("end").tree
    merge = merge_into(scene.parent, base=scene.base, ours=ours, theirs=theirs)
    assert merge.is_clean
    assert set(merge.written) == {"a.txt", "c.txt", "new/x.txt"}
    assert merge.removed == ("b.txt",)
    text = (scene.mine / "a.txt").read_text()
    assert "theirs\n" in text
    assert "ours\n" in text
    assert (scene.mine / "ours.txt").exists()
    assert (scene.mine / "c.txt").stat().st_mode & 0o111
    assert not (scene.mine / "x.log").exists()
    assert photograph(scene.mine / ".git") == index
    assert scene.parent.take("merged").tree == merge.tree
    again = merge_into(scene.parent, base=scene.base, ours=ours, theirs=theirs)
    assert (again.tree, again.written, again.removed) == (merge.tree, merge.written, merge.removed)


@pytest.mark.slow
def test_conflicts_are_returned_and_nothing_is_written(folder: Path) -> None:
    scene = Scene(folder)
    write(scene.place, {"a.txt": LINES.replace("line 2\n", "theirs\n"), "b.txt": "theirs\n", "fine.txt": "fine\n"})
    (scene.place / "d" / "e.txt").unlink()
    (scene.place / "raw.bin").write_bytes(b"\xff\0theirs")
    write(scene.mine, {"a.txt": LINES.replace("line 2\n", "ours\n"), "d/e.txt": "changed\n"})
    (scene.mine / "b.txt").unlink()
    (scene.mine / "raw.bin").write_bytes(b"\xff\0ours")
    ours, theirs, before = scene.parent.take("home").tree, scene.branch.take("end").tree, scene.files()
    merge = merge_into(scene.parent, base=scene.base, ours=ours, theirs=theirs)
    assert not merge.is_clean
    assert {one.path: one.kind for one in merge.conflicts} == {
        "a.txt": "contents",
        "b.txt": "modify/delete",
        "d/e.txt": "modify/delete",
        "raw.bin": "binary",
    }
    by_path: dict[str, MergeConflict] = {one.path: one for one in merge.conflicts}
    assert "<<<<<<< folder\nours\n=======\ntheirs\n>>>>>>> branch\n" in (by_path["a.txt"].text or "")
    assert by_path["raw.bin"].text is None
    assert scene.files() == before
    merge = merge_into(scene.parent, base=scene.base, ours=ours, theirs=theirs, write_conflicts=True)
    assert "<<<<<<< folder\n" in (scene.mine / "a.txt").read_text()
    assert (scene.mine / "fine.txt").read_text() == "fine\n"
    assert (scene.mine / "raw.bin").read_bytes() == b"\xff\0ours"
    assert len(merge.conflicts) == 4


@pytest.mark.slow
def test_a_folder_that_changed_meanwhile_is_refused(folder: Path) -> None:
    scene = Scene(folder)
    write(scene.place, {"b.txt": "theirs\n"})
    ours, theirs = scene.parent.take("home").tree, scene.branch.take("end").tree
    write(scene.mine, {"c.txt": "typed meanwhile\n"})
    before = scene.files()
    with pytest.raises(Conflict, match=r"c\.txt has changed"):
        merge_into(scene.parent, base=scene.base, ours=ours, theirs=theirs)
    assert scene.files() == before


@pytest.mark.slow
def test_a_moved_submodule_does_not_conflict_with_a_branch_without_it(folder: Path) -> None:
    library = repository(folder / "library", {"lib.py": "1\n"})
    mine, home = repository(folder / "mine"), folder / "home"
    git(mine, "submodule", "--quiet", "add", str(library), "vendor/lib")
    parent = Snapshots(mine, home)
    base = parent.take("fork").tree
    work_folder = worktree.add(mine, home, "fix", snapshot=base)
    branch = Snapshots(work_folder, home)
    assert branch.take("begin").tree == base
    assert branch.take("begin").incomplete == ("vendor/lib",)
    write(work_folder, {"a.txt": "theirs\n"})
    git(mine / "vendor" / "lib", "commit", "--quiet", "--allow-empty", "--message=more")
    held = photograph(mine / "vendor")
    merge = merge_into(parent, base=base, ours=parent.take("home").tree, theirs=branch.take("end").tree)
    assert merge.is_clean
    assert merge.written == ("a.txt",)
    assert photograph(mine / "vendor") == held


@pytest.mark.slow
def test_a_branch_without_changes_merges_nothing(folder: Path) -> None:
    scene = Scene(folder)
    ours, before = scene.parent.take("home").tree, scene.files()
    merge = merge_into(scene.parent, base=scene.base, ours=ours, theirs=scene.branch.take("end").tree)
    assert (merge.tree, merge.written, merge.removed) == (ours, (), ())
    assert scene.files() == before


@pytest.mark.slow
def test_a_merge_killed_at_any_moment_can_be_repeated(folder: Path) -> None:
    scene = Scene(folder)
    (scene.place / "c.txt").unlink()
    write(scene.place, {"a.txt": LINES.replace("line 2\n", "theirs\n"), "c.txt/now": "a folder\n", "f/g.txt": "g\n"})
    (scene.place / "b.txt").unlink()
    write(scene.mine, {"a.txt": LINES.replace("line 18\n", "ours\n"), "ours.txt": "ours\n"})
    ours, theirs = scene.parent.take("home").tree, scene.branch.take("end").tree
    before = scene.files()
    shutil.copytree(scene.mine, folder / "template", symlinks=True)
    merge_into(scene.parent, base=scene.base, ours=ours, theirs=theirs)
    after, theirs_git = scene.files(), photograph(folder / "template" / ".git")
    assert after != before

    def act(number: int) -> Callable[[], object]:
        shutil.copytree(folder / "template", folder / f"mine-{number}", symlinks=True)
        parent = Snapshots(folder / f"mine-{number}", scene.home)
        return lambda: merge_into(parent, base=scene.base, ours=ours, theirs=theirs)

    def check(number: int) -> None:
        mine = folder / f"mine-{number}"
        for path, found in photograph(mine, without=(".git", ".perdure-restore")).items():
            assert found in (before.get(path), after.get(path))
        assert merge_into(Snapshots(mine, scene.home), base=scene.base, ours=ours, theirs=theirs).is_clean
        assert photograph(mine, without=(".git",)) == after
        assert photograph(mine / ".git") == theirs_git
        shutil.rmtree(mine)

    assert sweep(act, check) > 60
