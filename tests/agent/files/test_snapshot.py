"""Snapshots of a folder, in every kind of repository and outside git; the user's repository is never changed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from perdure.agent.files.snapshot import Snapshots
from perdure.errors import ConfigError, NotFound, StoreUnavailable
from tests.agent.support.git_repository import git, photograph, repository, write
from tests.seed import ALL


def contents(snapshots: Snapshots, tree: str) -> dict[str, bytes]:
    return {one.path: snapshots.read(tree, one.path) for one in snapshots.files(tree) if one.mode.startswith("100")}


def test_a_snapshot_holds_every_file_that_is_not_ignored(folder: Path) -> None:
    mine = repository(folder / "mine")
    snapshots = Snapshots(mine, folder / "home")
    taken = snapshots.take("first")
    assert snapshots.is_git
    assert snapshots.missing is None
    assert contents(snapshots, taken.commit) == {
        ".gitignore": b"*.log\n",
        "a.txt": b"one\n",
        "new.txt": b"untracked\n",
        "src/b.py": b"x = 3\n",
        "src/c.py": b"y = 1\n",
        "staged.txt": b"staged\n",
    }
    assert taken.files_changed == 6
    assert taken.incomplete == ()


def test_changes_deletions_modes_and_links_are_kept(folder: Path) -> None:
    mine = repository(folder / "mine")
    snapshots = Snapshots(mine, folder / "home")
    first = snapshots.take("first")
    (mine / "a.txt").unlink()
    (mine / "new.txt").chmod(0o755)
    (mine / "link").symlink_to("nowhere")
    subprocess.run(["sh", "-c", "echo 'x = 4' > src/b.py"], cwd=mine, check=True)
    second = snapshots.take("second")
    modes = {one.path: one.mode for one in snapshots.files(second.tree)}
    assert second.files_changed == 4
    assert "a.txt" not in modes
    assert modes["new.txt"] == "100755"
    assert modes["link"] == "120000"
    assert snapshots.read(second.tree, "src/b.py") == b"x = 4\n"
    patch = snapshots.diff(first.tree, second.tree)
    assert "-x = 3\n+x = 4\n" in patch
    assert "\x1b" not in patch
    assert "src/b.py" not in snapshots.diff(first.tree, second.tree, paths=["a.txt"])
    assert "4 files changed" in snapshots.diff(first.tree, second.tree, stat=True)


def test_the_same_files_are_the_same_snapshot(folder: Path) -> None:
    mine = repository(folder / "mine")
    snapshots = Snapshots(mine, folder / "home")
    first = snapshots.take("first")
    kept = photograph(folder / "home")
    again = snapshots.take("other words")
    assert (again.commit, again.files_changed) == (first.commit, 0)
    assert photograph(folder / "home") == kept
    os.utime(mine / "a.txt", ns=(1, 1))  # looks changed, and is not
    assert snapshots.take("other words").commit == first.commit
    assert Snapshots(mine, folder / "home").take("another process").commit == first.commit


@pytest.mark.slow
def test_nothing_of_the_repository_is_ever_changed(folder: Path) -> None:
    mine = repository(folder / "mine")
    hook = mine / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {folder}/hooked\n")
    hook.chmod(0o755)
    git(mine, "config", "core.fsmonitor", f"touch {folder}/hooked; false")
    before = photograph(mine)
    snapshots = Snapshots(mine, folder / "home")
    first = snapshots.take("first")
    write(mine, {"a.txt": "two\n", "more.txt": "more\n"})
    snapshots.take("second")
    snapshots.check_out(first.tree)
    snapshots.prune([], grace=0)
    assert photograph(mine) == before
    assert not (folder / "hooked").exists()


def test_git_variables_of_the_user_have_no_effect(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = repository(folder / "mine")
    other = repository(folder / "other", {"o.txt": "other\n"})
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(other / ".git" / "objects"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "false")
    before = photograph(other)
    snapshots = Snapshots(mine, folder / "home")
    assert "a.txt" in contents(snapshots, snapshots.take("first").tree)
    assert photograph(other) == before


def test_every_source_of_ignore_rules_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = repository(folder / "mine")
    write(folder, {"person/.gitconfig": f"[core]\n\texcludesFile = {folder}/person/everywhere\n"})
    write(folder, {"person/everywhere": "*.everywhere\n"})
    monkeypatch.setenv("HOME", str(folder / "person"))
    (mine / ".git" / "info").mkdir(exist_ok=True)
    (mine / ".git" / "info" / "exclude").write_text("*.mine")
    write(mine, {"x.everywhere": "", "x.mine": "", "x.log": "", "src/.gitignore": "*.deep\n", "src/x.deep": ""})
    snapshots = Snapshots(mine, folder / "home")
    names = {one.path for one in snapshots.files(snapshots.take("first").tree)}
    assert {name for name in names if "/x." in f"/{name}"} == set()


@pytest.mark.slow
def test_a_tracked_file_is_included_though_ignored(folder: Path) -> None:
    mine = repository(folder / "mine")
    snapshots = Snapshots(mine, folder / "home")
    assert "noise.log" not in contents(snapshots, snapshots.take("first").tree)
    git(mine, "add", "--force", "noise.log")
    assert "noise.log" in contents(snapshots, snapshots.take("second").tree)


@pytest.mark.slow
def test_a_file_that_became_ignored_is_left_out(folder: Path) -> None:
    mine = repository(folder / "mine")
    snapshots = Snapshots(mine, folder / "home")
    write(mine, {"secret.env": "key\n"})
    first = snapshots.take("first")
    write(mine, {".gitignore": "*.log\n*.env\n"})
    second = snapshots.take("second")
    assert "secret.env" not in contents(snapshots, second.tree)
    snapshots.check_out(second.tree)
    assert (mine / "secret.env").read_text() == "key\n"
    assert "secret.env" in contents(snapshots, first.tree)


ODD = [
    "-dash",
    "new\nline",
    "tab\there",
    'quo"te',
    "back\\slash",
    "ünï",
    "日本",
    " lead",
    "trail ",
    "*",
    ":x",
    "[a]",
    "~",
]


def test_odd_names_survive(folder: Path) -> None:
    mine = folder / "mine"
    names = [os.fsencode(name) for name in (*ODD, *(f"d{name}/{name}" for name in ODD))] + [b"\xff\xfe"]
    for name in names:
        path = os.path.join(os.fsencode(mine), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(os.fsdecode(path)).write_bytes(name)
    snapshots = Snapshots(mine, folder / "home")
    taken = snapshots.take("odd\nwords — ü")
    assert {os.fsencode(one.path) for one in snapshots.files(taken.tree)} == set(names)
    other = folder / "other"
    other.mkdir()
    snapshots.check_out(taken.tree, other)
    assert photograph(other) == photograph(mine)
    snapshots.diff(taken.tree, taken.tree, paths=["-dash", "*", ":x"])


@pytest.mark.slow
def test_attributes_do_not_change_bytes(folder: Path) -> None:
    mine = repository(folder / "mine", {".gitattributes": "* text=auto eol=crlf\n*.x filter=shout ident\n"})
    git(mine, "config", "filter.shout.clean", "tr a-z A-Z")
    (mine / "dos.txt").write_bytes(b"one\r\ntwo\r\nthree\n")
    (mine / "a.x").write_bytes(b"$Id$ quiet\n")
    snapshots = Snapshots(mine, folder / "home")
    taken = snapshots.take("first")
    before = photograph(mine)
    (mine / "dos.txt").unlink()
    (mine / "a.x").unlink()
    snapshots.check_out(taken.tree)
    assert photograph(mine) == before


def test_outside_git_the_missing_features_are_reported(folder: Path) -> None:
    write(folder / "plain", {"a.txt": "one\n", ".gitignore": "*.log\n", "x.log": ""})
    snapshots = Snapshots(folder / "plain", folder / "home")
    assert not snapshots.is_git
    assert "not in a git repository" in (snapshots.missing or "")
    assert snapshots.head() is None
    taken = snapshots.take("first")
    assert contents(snapshots, taken.tree) == {"a.txt": b"one\n", ".gitignore": b"*.log\n"}
    git(folder / "plain", "init", "--quiet")
    assert snapshots.is_git
    assert snapshots.take("again").commit == taken.commit


def test_a_sha256_repository_can_be_snapshotted(folder: Path) -> None:
    mine = folder / "mine"
    write(mine, {"a.txt": "one\n", "b.txt": "two\n"})
    git(mine, "init", "--quiet", "--object-format=sha256")
    git(mine, "add", "--all")
    git(mine, "commit", "--quiet", "--message=first")
    snapshots = Snapshots(mine, folder / "home")
    first = snapshots.take("first")
    (mine / "b.txt").unlink()
    (mine / "b.txt").mkdir()
    second = snapshots.take("second")
    assert (len(second.tree), second.files_changed) == (64, 1)
    assert snapshots.check_out(first.tree).written == ("b.txt",)


def test_a_repository_without_commits_can_be_snapshotted(folder: Path) -> None:
    write(folder / "mine", {"a.txt": "one\n"})
    git(folder / "mine", "init", "--quiet")
    snapshots = Snapshots(folder / "mine", folder / "home")
    assert snapshots.head() is None
    assert contents(snapshots, snapshots.take("first").tree) == {"a.txt": b"one\n"}


@pytest.mark.slow
def test_a_subfolder_follows_the_rules_above_it(folder: Path) -> None:
    mine = repository(folder / "mine")
    write(mine, {"src/x.log": "ignored above\n", "src/deep/y.py": "y\n"})
    snapshots = Snapshots(mine / "src", folder / "home")
    first = snapshots.take("first")
    assert contents(snapshots, first.tree) == {"b.py": b"x = 3\n", "c.py": b"y = 1\n", "deep/y.py": b"y\n"}
    before = photograph(mine)
    write(mine, {"src/b.py": "x = 4\n", "src/more.py": "", "a.txt": "two\n"})
    snapshots.check_out(first.tree)
    assert (mine / "a.txt").read_text() == "two\n"
    write(mine, {"a.txt": "one\n"})
    assert photograph(mine) == before
    for name in ("b.py", "c.py", "deep/y.py"):
        (mine / "src" / name).unlink()
    assert snapshots.files(snapshots.take("empty").tree) == []


def test_an_ignored_folder_follows_its_own_rules(folder: Path) -> None:
    mine = repository(folder / "mine")
    write(mine, {".gitignore": "build/\n", "build/out.txt": "made\n"})
    snapshots = Snapshots(mine / "build", folder / "home")
    assert contents(snapshots, snapshots.take("first").tree) == {"out.txt": b"made\n"}


def test_a_linked_worktree_of_the_user_can_be_snapshotted(folder: Path) -> None:
    mine = repository(folder / "mine")
    git(mine, "worktree", "add", "--quiet", str(folder / "linked"))
    write(folder / "linked", {"a.txt": "linked\n", "x.log": ""})
    before = photograph(mine)
    snapshots = Snapshots(folder / "linked", folder / "home")
    assert contents(snapshots, snapshots.take("first").tree)["a.txt"] == b"linked\n"
    assert photograph(mine) == before


@pytest.mark.slow
def test_a_submodule_is_recorded_and_reported_as_incomplete(folder: Path) -> None:
    library = repository(folder / "library", {"lib.py": "1\n"})
    mine = repository(folder / "mine")
    git(mine, "submodule", "--quiet", "add", str(library), "vendor/lib")
    snapshots = Snapshots(mine, folder / "home")
    first = snapshots.take("first")
    assert first.incomplete == ("vendor/lib",)
    assert [one.mode for one in snapshots.files(first.tree) if one.path == "vendor/lib"] == ["160000"]
    assert snapshots.take("same").incomplete == ("vendor/lib",)
    git(mine / "vendor" / "lib", "commit", "--quiet", "--allow-empty", "--message=more")
    assert snapshots.take("second").files_changed == 1
    held = photograph(mine / "vendor")
    snapshots.check_out(first.tree)
    assert photograph(mine / "vendor") == held  # its content is not ours to move


@pytest.mark.slow
def test_nested_repositories_can_appear_and_disappear(folder: Path) -> None:
    mine = folder / "mine"
    write(mine, {"a.txt": "one\n"})
    repository(mine / "inner")
    (mine / "unborn").mkdir()
    git(mine / "unborn", "init", "--quiet")
    write(mine, {"unborn/x": "x\n"})
    snapshots = Snapshots(mine, folder / "home")
    first = snapshots.take("first")
    assert sorted(first.incomplete) == ["inner", "unborn"]
    assert snapshots.take("same").commit == first.commit
    (mine / "inner" / ".git").rename(folder / "moved")
    (mine / "unborn" / ".git").rename(folder / "moved too")
    second = snapshots.take("second")
    assert second.incomplete == ()
    assert {"inner/a.txt", "unborn/x"} <= contents(snapshots, second.tree).keys()


def test_a_file_that_is_too_large_is_left_out_and_reported(folder: Path) -> None:
    mine = folder / "mine"
    write(mine, {"a.txt": "one\n", "data.bin": "small"})
    snapshots = Snapshots(mine, folder / "home", largest=1000)
    first = snapshots.take("first")
    (mine / "data.bin").write_bytes(b"x" * 1001)
    second = snapshots.take("second")
    assert [(one.path, one.why) for one in second.left_out] == [("data.bin", "too large")]
    assert contents(snapshots, second.tree) == {"a.txt": b"one\n"}
    snapshots.check_out(second.tree)
    assert (mine / "data.bin").stat().st_size == 1001
    assert snapshots.read(first.tree, "data.bin") == b"small"


def test_files_and_folders_can_replace_each_other(folder: Path) -> None:
    mine = folder / "mine"
    write(mine, {"x": "file\n", "d/f": "inside\n", "e/f": "inside\n"})
    snapshots = Snapshots(mine, folder / "home")
    first, before = snapshots.take("first"), photograph(mine)
    (mine / "x").unlink()
    write(mine, {"x/y/z": "now inside\n"})
    (mine / "d" / "f").unlink()
    (mine / "d").rmdir()
    (mine / "d").symlink_to("e")
    (mine / "e" / "f").unlink()
    (mine / "e").rmdir()
    write(mine, {"e": "now a file\n"})
    second, after = snapshots.take("second"), photograph(mine)
    assert {one.path for one in snapshots.files(second.tree)} == {"x/y/z", "d", "e"}
    snapshots.check_out(first.tree)
    assert photograph(mine) == before
    snapshots.check_out(second.tree)
    assert photograph(mine) == after


def test_invalid_folders_and_names_are_refused(folder: Path) -> None:
    mine = repository(folder / "mine")
    with pytest.raises(ConfigError, match="inside the folder"):
        Snapshots(mine, mine / ".perdure")
    with pytest.raises(NotFound):
        Snapshots(folder / "nothing", folder / "home")
    snapshots = Snapshots(mine, folder / "home")
    for name in ("0" * 40, "HEAD", "--all", ""):
        with pytest.raises(NotFound):
            snapshots.check_out(name)


@pytest.mark.slow
def test_prune_deletes_the_rest_and_ends_borrowing(folder: Path) -> None:
    mine = repository(folder / "mine")
    snapshots = Snapshots(mine, folder / "home")
    taken = []
    for number in range(6):
        (mine / "big.bin").write_bytes(os.urandom(50_000))
        taken.append(snapshots.take(f"number {number}"))
    pruned = snapshots.prune([taken[1].commit, "0" * 40])
    assert pruned.missing == ("0" * 40,)
    assert contents(snapshots, taken[0].tree)  # younger than the grace
    pruned = snapshots.prune([taken[1].commit], grace=0)
    assert pruned.bytes_after < pruned.bytes_before - 150_000
    with pytest.raises(NotFound):
        snapshots.files(taken[0].tree)
    assert contents(snapshots, taken[-1].commit)  # what the folder stands on
    (mine / ".git").rename(folder / "gone")
    assert contents(snapshots, taken[1].tree)["a.txt"] == b"one\n"
    assert snapshots.take("same").tree == taken[-1].tree


@pytest.mark.slow
def test_a_damaged_index_is_made_again(folder: Path) -> None:
    mine = repository(folder / "mine")
    snapshots = Snapshots(mine, folder / "home")
    first = snapshots.take("first")
    snapshots.view.index.write_bytes(b"DIRC torn")
    write(mine, {"a.txt": "two\n"})
    second = snapshots.take("second")
    assert second.files_changed == 1
    assert contents(snapshots, first.tree)["a.txt"] == b"one\n"


def test_an_object_torn_by_a_power_failure_is_written_again(folder: Path) -> None:
    mine = folder / "mine"
    write(mine, {"a.txt": "one\n"})
    snapshots = Snapshots(mine, folder / "home")
    first = snapshots.take("first")
    blob = next(one.object for one in snapshots.files(first.tree))
    torn = folder / "home" / "git" / "objects" / blob[:2] / blob[2:]
    torn.chmod(0o600)
    torn.write_bytes(b"")
    snapshots.view.index.unlink()
    snapshots.view.index.with_name("record.json").unlink()
    (folder / "home" / "git" / "boot").write_text("an earlier start")
    assert contents(snapshots, snapshots.take("first").tree) == {"a.txt": b"one\n"}


def test_locks_of_dead_processes_are_removed_and_live_ones_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = repository(folder / "mine")
    snapshots = Snapshots(mine, folder / "home")
    first = snapshots.take("first")
    snapshots.view.index.with_name("index.lock").write_bytes(b"dead")
    (folder / "home" / "git" / "packed-refs.lock").write_bytes(b"dead")
    write(mine, {"a.txt": "two\n"})
    assert snapshots.take("second").files_changed == 1
    assert snapshots.prune([first.commit]).kept == 1
    monkeypatch.setattr("perdure.agent.files.object_store.LOCK_SECONDS", 0.05)
    with snapshots.lock(), pytest.raises(StoreUnavailable, match="has used the snapshots"):
        Snapshots(mine, folder / "home").take("third")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_many_snapshots_do_not_grow_the_repository(folder: Path) -> None:
    """A hundred, and a thousand in soak."""
    count = 1000 if ALL else 100
    mine = repository(folder / "mine")
    before = photograph(mine)
    snapshots = Snapshots(mine, folder / "home")
    taken = []
    for number in range(count):
        write(mine, {"a.txt": f"number {number}\n"})
        taken.append(snapshots.take(f"number {number}").commit)
    write(mine, {"a.txt": "one\n"})
    assert photograph(mine) == before
    assert len(set(taken)) == count
    pruned = snapshots.prune(taken[:: count // 10], grace=0)
    assert (pruned.kept, pruned.missing) == (10, ())
    assert pruned.bytes_after < 50_000
