"""A checkout writes exactly what a snapshot held, leaves ignored files alone, and refuses to lose a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perdure.agent.files.snapshot import Snapshots
from perdure.errors import Conflict, Damaged
from tests.agent.support.git_repository import git, photograph, repository, write


def test_a_checkout_restores_every_file(folder: Path) -> None:
    mine = repository(folder / "mine")
    (mine / "run.sh").write_text("#!/bin/sh\n")
    (mine / "run.sh").chmod(0o755)
    (mine / "link").symlink_to("a.txt")
    (mine / "private.txt").write_text("mine\n")
    (mine / "private.txt").chmod(0o600)
    snapshots = Snapshots(mine, folder / "home")
    first, before = snapshots.take("first"), photograph(mine)
    (mine / "run.sh").chmod(0o644)
    (mine / "link").unlink()
    (mine / "link").symlink_to("src")
    write(mine, {"private.txt": "changed\n", "deep/er/new.txt": "new\n", "a.txt": "changed\n"})
    done = snapshots.check_out(first.commit)
    assert photograph(mine) == before
    assert set(done.written) == {"run.sh", "link", "private.txt", "a.txt"}
    assert done.removed == ("deep/er/new.txt",)
    assert done.after.tree == first.tree
    assert snapshots.read(done.before.tree, "deep/er/new.txt") == b"new\n"
    assert snapshots.check_out(first.commit).written == ()


def test_a_snapshot_can_be_checked_out_into_another_folder(folder: Path) -> None:
    mine = repository(folder / "mine")
    snapshots = Snapshots(mine, folder / "home")
    first = snapshots.take("first")
    other = folder / "other"
    write(other, {"stray.txt": "stray\n", "x.log": "ignored by what is restored\n"})
    done = snapshots.check_out(first.tree, other)
    assert done.ignored == ("x.log",)
    assert done.removed == ("stray.txt",)
    assert (other / "x.log").exists()
    (other / "x.log").unlink()
    (mine / "noise.log").unlink()
    assert photograph(other) == photograph(mine, without=(".git",))


def test_files_ignored_by_old_or_new_rules_are_left_alone(folder: Path) -> None:
    mine = repository(folder / "mine")
    snapshots = Snapshots(mine, folder / "home")
    first = snapshots.take("first")
    write(mine, {".gitignore": "*.tmp\n", "x.tmp": "ignored now\n", "more.log": "ignored then\n"})
    done = snapshots.check_out(first.tree)
    assert (mine / "x.tmp").read_text() == "ignored now\n"
    assert (mine / "more.log").read_text() == "ignored then\n"
    assert set(done.ignored) == {"more.log", "noise.log"}


def test_an_ignored_file_is_saved_before_it_is_overwritten(folder: Path) -> None:
    mine = repository(folder / "mine")
    snapshots = Snapshots(mine, folder / "home")
    write(mine, {"settings.env": "then\n"})
    first = snapshots.take("first")
    write(mine, {".gitignore": "*.env\n", "settings.env": "now\n"})
    snapshots.take("second")
    done = snapshots.check_out(first.tree)
    assert (mine / "settings.env").read_text() == "then\n"
    assert snapshots.read(done.before.tree, "settings.env") == b"now\n"


def test_unsaved_files_are_never_removed_by_a_checkout(folder: Path) -> None:
    mine = repository(folder / "mine")
    snapshots = Snapshots(mine, folder / "home")
    write(mine, {"out": "a file\n", "cache/x": "x\n"})
    first = snapshots.take("first")
    (mine / "out").unlink()
    write(mine, {"out/keep.log": "ignored, and in the way\n", "a.txt": "changed\n"})
    before = photograph(mine)
    with pytest.raises(Conflict, match=r"out/keep\.log"):
        snapshots.check_out(first.tree)
    assert photograph(mine) == before
    (mine / "out" / "keep.log").unlink()
    (mine / "out").rmdir()
    (mine / "cache" / "x").unlink()
    git(mine / "cache", "init", "--quiet")
    with pytest.raises(Conflict, match="cache"):
        snapshots.check_out(first.tree)


@pytest.mark.slow
def test_a_checkout_never_follows_a_link_out_of_the_folder(folder: Path) -> None:
    mine, outside = repository(folder / "mine"), folder / "outside"
    write(outside, {"f": "outside\n"})
    write(mine, {"d/f": "inside\n"})
    snapshots = Snapshots(mine, folder / "home")
    first = snapshots.take("first")
    (mine / "d" / "f").unlink()
    (mine / "d").rmdir()
    (mine / "d").symlink_to(outside)
    done = snapshots.check_out(first.tree)
    assert (mine / "d" / "f").read_text() == "inside\n"
    assert (outside / "f").read_text() == "outside\n"
    assert snapshots.read(done.before.tree, "d") == os.fsencode(outside)
    (mine / "d" / "f").unlink()
    (mine / "d").rmdir()
    (mine / "d").symlink_to(outside)
    with open(mine / ".git" / "info" / "exclude", "a") as rules:
        rules.write("/d\n")
    with pytest.raises(Conflict, match="d is in no snapshot"):
        snapshots.check_out(first.tree)
    assert (outside / "f").read_text() == "outside\n"


@pytest.mark.parametrize("name", ["..", ".git", ".GIT"])
def test_a_forged_tree_writes_nothing(folder: Path, name: str) -> None:
    mine = repository(folder / "mine")
    snapshots = Snapshots(mine, folder / "home")
    snapshots.take("first")
    before = photograph(folder / "mine")
    with snapshots.lock() as held:
        blob = held.out("hash-object", "-w", "--stdin", stdin=b"evil\n").decode().strip()
        entry = b"100644 hooked\0" + bytes.fromhex(blob)
        inner = held.out("hash-object", "-t", "tree", "--literally", "-w", "--stdin", stdin=entry).decode().strip()
        entry = b"40000 " + name.encode() + b"\0" + bytes.fromhex(inner)
        tree = held.out("hash-object", "-t", "tree", "--literally", "-w", "--stdin", stdin=entry).decode().strip()
    with pytest.raises(Damaged):
        snapshots.check_out(tree)
    assert photograph(folder / "mine") == before
    assert not (folder / "hooked").exists()


def test_missing_content_is_detected_before_anything_is_changed(folder: Path) -> None:
    mine = folder / "mine"
    write(mine, {"a.txt": "one\n", "b.txt": "two\n"})
    snapshots = Snapshots(mine, folder / "home")
    first = snapshots.take("first")
    blob = next(one.object for one in snapshots.files(first.tree) if one.path == "b.txt")
    write(mine, {"a.txt": "three\n", "b.txt": "four\n"})
    (folder / "home" / "git" / "objects" / blob[:2] / blob[2:]).unlink()
    before = photograph(mine)
    with pytest.raises(Damaged):
        snapshots.check_out(first.tree)
    snapshots.take("afterwards")
    assert photograph(mine) == before
