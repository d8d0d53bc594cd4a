"""A rewind in place replaces each path only if it still holds what the snapshot holds, and loses nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import faults
from perdure.agent.files.objects import read_blobs
from perdure.agent.files.rewind import path_replacement
from perdure.agent.files.rewind.folder_rewind import folder_changes
from perdure.agent.files.rewind.path_replacement import PathReplacer
from perdure.agent.files.snapshot import Snapshots
from tests.agent.support.git_repository import git, photograph, repository, sweep, write


def put_back(snapshots: Snapshots, before: str, target: str) -> PathReplacer:
    with snapshots.lock() as store:
        changes, _ = folder_changes(store, snapshots, before, target, (), ())
        made = PathReplacer(store, snapshots.folder)
        made.replace(changes)
    return made


def changed_repository(folder: Path) -> tuple[Path, dict[str, Any], dict[str, Any], str, str]:
    """A repository with two snapshots: paths that change their kind, their mode, their case and their content."""
    mine = repository(folder / "template")
    write(mine, {"x": "file\n", "d/f": "f\n", "gone/away.txt": "away\n", "run.sh": "#!/bin/sh\n", "Case.txt": "C\n"})
    (mine / "run.sh").chmod(0o755)
    (mine / "d" / "link").symlink_to("f")
    (mine / "swap").symlink_to("a.txt")
    home = folder / "home"
    target, wanted = Snapshots(mine, home).take("target").commit, photograph(mine, without=(".git",))
    for path in ("x", "swap", "Case.txt"):
        (mine / path).unlink()
    for path in ("d", "gone"):
        shutil.rmtree(mine / path)
    (mine / "run.sh").chmod(0o644)
    write(mine, {"x/y": "folder\n", "d": "file\n", "swap": "a file\n", "case.txt": "c\n", "a.txt": "changed\n"})
    before = Snapshots(mine, home).take("before").commit
    return mine, wanted, photograph(mine, without=(".git",)), before, target


@pytest.fixture(autouse=True)
def _disarmed() -> Any:
    yield
    faults.disarm()


def test_files_links_modes_and_folders_are_put_back(folder: Path) -> None:
    mine, wanted, changed, before, target = changed_repository(folder)
    theirs = photograph(mine / ".git")
    made = put_back(Snapshots(mine, folder / "home"), before, target)
    assert (photograph(mine, without=(".git",)), made.refused) == (wanted, {})
    assert photograph(mine / ".git") == theirs
    made = put_back(Snapshots(mine, folder / "home"), target, before)
    assert (photograph(mine, without=(".git",)), made.refused) == (changed, {})


@pytest.mark.slow
def test_a_rewind_killed_at_any_moment_can_be_repeated(folder: Path) -> None:
    template, wanted, changed, before, target = changed_repository(folder)

    def act(number: int) -> Callable[[], object]:
        shutil.copytree(template, folder / f"mine-{number}", symlinks=True)
        return lambda: put_back(Snapshots(folder / f"mine-{number}", folder / "home"), before, target)

    def check(number: int) -> None:
        mine = folder / f"mine-{number}"
        for path, found in photograph(mine, without=(".git",)).items():
            if not os.path.basename(path).startswith(".perdure-"):
                assert found in (wanted.get(path), changed.get(path), (found[0], b"")), path
        made = put_back(Snapshots(mine, folder / "home"), before, target)
        assert (photograph(mine, without=(".git",)), made.refused) == (wanted, {})
        shutil.rmtree(mine)

    assert sweep(act, check) > 40


@pytest.mark.parametrize("moment", ["before", "file.synced"])
def test_an_edit_at_the_same_time_is_kept(folder: Path, moment: str) -> None:
    mine = repository(folder / "mine")
    snapshots = Snapshots(mine, folder / "home")
    target = snapshots.take("target").commit
    write(mine, {"a.txt": "two\n", "src/b.py": "two\n", "more.txt": "more\n"})
    before = snapshots.take("before").commit

    def edit(point: str) -> None:
        if point == moment:
            faults.disarm()
            write(mine, {"a.txt": "by hand\n", "more.txt": "by hand\n"})

    if moment == "before":
        edit("before")
    else:
        faults.arm(edit)
    made = put_back(snapshots, before, target)
    assert set(made.refused) == ({"a.txt", "more.txt"} if moment == "before" else {"a.txt"})
    assert {(mine / path).read_text() for path in ("a.txt", "more.txt")} == {"by hand\n"}
    assert (mine / "src" / "b.py").read_text() == "x = 3\n"
    assert not list(mine.glob("**/.perdure-*"))


def test_an_edit_between_comparison_and_exchange_goes_back_to_its_path(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = repository(folder / "mine")
    snapshots = Snapshots(mine, folder / "home")
    target = snapshots.take("target").commit
    write(mine, {"a.txt": "two\n", "more.txt": "more\n"})
    before = snapshots.take("before").commit
    rename = path_replacement._rename
    edited: set[str] = set()

    def late(old: str, new: str, above: int, flag: int) -> None:
        for path in ("a.txt", "more.txt"):
            if path in (old, new) and path not in edited:
                edited.add(path)
                (mine / path).write_text("at the last moment\n")
        rename(old, new, above, flag)

    monkeypatch.setattr(path_replacement, "_rename", late)
    made = put_back(snapshots, before, target)
    assert set(made.refused) == edited == {"a.txt", "more.txt"}
    assert {(mine / path).read_text() for path in edited} == {"at the last moment\n"}
    assert not list(mine.glob("**/.perdure-*"))


def test_ignored_and_unsaved_files_are_left_alone(folder: Path) -> None:
    mine = repository(folder / "mine")
    snapshots = Snapshots(mine, folder / "home")
    write(mine, {"settings.env": "then\n", "out": "a file\n", "big.bin": "small then\n"})
    target = snapshots.take("target").commit
    (mine / "out").unlink()
    write(mine, {".gitignore": "*.env\nout/\n", "settings.env": "now\n", "out/cache": "ignored\n", "more.log": "log\n"})
    with (mine / "big.bin").open("wb") as big:
        big.truncate((100 << 20) + 1)
    os.mkfifo(mine / "pipe")
    git(mine, "init", "--quiet", "inner")
    before = snapshots.take("before")
    made = put_back(snapshots, before.commit, target)
    assert (mine / "settings.env").read_text() == "now\n"
    assert (mine / "out" / "cache").read_text() == "ignored\n"
    assert (mine / "big.bin").stat().st_size == (100 << 20) + 1
    assert (mine / "pipe").is_fifo()
    assert (mine / "inner" / ".git").is_dir()
    assert (mine / "more.log").read_text() == "log\n"
    assert set(made.refused) == {"settings.env", "out", "big.bin"}


def test_a_link_above_a_path_is_not_followed(folder: Path) -> None:
    mine = repository(folder / "mine")
    snapshots = Snapshots(mine, folder / "home")
    target = snapshots.take("target").commit
    shutil.rmtree(mine / "src")
    outside = folder / "outside"
    outside.mkdir()
    before = snapshots.take("before").commit
    (mine / "src").symlink_to(outside)
    made = put_back(snapshots, before, target)
    assert set(made.refused) == {"src/b.py", "src/c.py"}
    assert list(outside.iterdir()) == []


def test_emptied_folders_behind_a_new_link_stay(folder: Path) -> None:
    mine = repository(folder / "mine")
    (folder / "outside" / "sub").mkdir(parents=True)
    (mine / "d").symlink_to(folder / "outside")
    snapshots = Snapshots(mine, folder / "home")
    target = snapshots.take("target").commit
    (mine / "d").unlink()
    write(mine, {"d/sub/f": "f\n"})
    before = snapshots.take("before").commit
    assert put_back(snapshots, before, target).refused == {}
    assert ((mine / "d").is_symlink(), (folder / "outside" / "sub").is_dir()) == (True, True)
    put_back(snapshots, target, before)
    snapshots.check_out(target)
    assert (folder / "outside" / "sub").is_dir()


def test_a_refused_folder_keeps_its_empty_folders(folder: Path) -> None:
    mine = repository(folder / "mine")
    write(mine, {"x": "file\n"})
    snapshots = Snapshots(mine, folder / "home")
    target = snapshots.take("target").commit
    (mine / "x").unlink()
    git(mine, "init", "--quiet", "x/inner")
    (mine / "x" / "inner" / ".git" / "refs" / "heads" / "mine").mkdir()
    before, theirs = snapshots.take("before").commit, sorted((mine / "x").rglob("*"))
    (mine / "x" / "inner" / ".git" / "refs" / "heads" / "name").write_text("")
    made = put_back(snapshots, before, target)
    assert (set(made.refused), set(theirs) - set((mine / "x").rglob("*"))) == ({"x"}, set())


def test_content_for_one_reader_is_never_readable_by_others(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = repository(folder / "mine")
    write(mine, {"secret": "then\n"})
    snapshots = Snapshots(mine, folder / "home")
    target = snapshots.take("target").commit
    write(mine, {"secret": "now\n"})
    (mine / "secret").chmod(0o600)
    before = snapshots.take("before").commit
    seen: list[int] = []

    def watched(*given: Any) -> Iterator[Iterator[bytes]]:
        return (map(watch, content) for content in read_blobs(*given))

    def watch(piece: bytes) -> bytes:
        seen.extend(one.stat().st_mode & 0o777 for one in mine.glob(".perdure-*.part"))
        return piece

    monkeypatch.setattr(path_replacement, "read_blobs", watched)
    put_back(snapshots, before, target)
    assert (seen, (mine / "secret").read_text()) == ([0o600], "then\n")


def test_a_second_edit_while_the_first_goes_back_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = repository(folder / "mine")
    snapshots = Snapshots(mine, folder / "home")
    target = snapshots.take("target").commit
    write(mine, {"a.txt": "now\n"})
    before = snapshots.take("before").commit
    rename, edits = path_replacement._rename, ["first edit\n", "second edit\n"]

    def edited(old: str, new: str, above: int, flag: int) -> None:
        if flag == path_replacement.EXCHANGE:
            (mine / "a.txt").write_text(edits.pop(0))
        rename(old, new, above, flag)

    monkeypatch.setattr(path_replacement, "_rename", edited)
    made = put_back(snapshots, before, target)
    (left,) = mine.glob(".perdure-*")
    assert left.name in made.refused["a.txt"]
    assert ((mine / "a.txt").read_text(), left.read_text()) == ("first edit\n", "second edit\n")


def test_a_full_disk_refuses_paths_and_loses_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, wanted, changed, before, target = changed_repository(folder)
    snapshots = Snapshots(mine, folder / "home")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(PathReplacer, "_copy_attributes", full)
        made = put_back(snapshots, before, target)
    assert set(made.refused.values()) == {"no space left on device"}
    for path, found in photograph(mine, without=(".git",)).items():
        assert found in (wanted.get(path), changed.get(path), (found[0], b"")), path
    again = snapshots.take("again").commit
    assert put_back(snapshots, again, target).refused == {}
    assert photograph(mine, without=(".git",)) == wanted
