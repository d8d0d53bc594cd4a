"""A process that takes or checks out a snapshot is killed at some moments; the same call again completes it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.agent.files.snapshot import Snapshots
from perdure.errors import NotFound, StoreUnavailable
from tests.agent.support.git_repository import git, photograph, repository, sweep, write


def kept(snapshots: Snapshots, name: str) -> dict[str, bytes]:
    return {one.path: snapshots.read(name, one.path) for one in snapshots.files(name)}


@pytest.mark.slow
def test_a_kill_at_any_moment_of_a_snapshot_loses_nothing(folder: Path) -> None:
    mine = repository(folder / "mine")
    (mine / "gone.txt").write_text("soon\n")
    Snapshots(mine, folder / "template").take("earlier")
    (mine / "gone.txt").unlink()
    write(mine, {"src/b.py": "x = 5\n", "more/more.txt": "more\n"})
    before = photograph(mine)
    wanted = {path: (mine / path).read_bytes() for path in git(mine, "ls-files", "-co", "--exclude-standard").split()}

    def act(number: int) -> Callable[[], object]:
        home = folder / f"home-{number}"
        if number % 4:
            shutil.copytree(folder / "template", home)
        return lambda: Snapshots(mine, home).take("words")

    def check(number: int) -> None:
        snapshots = Snapshots(mine, folder / f"home-{number}")
        assert kept(snapshots, snapshots.take("words").commit) == wanted
        git(folder / f"home-{number}" / "git", "--git-dir=.", "fsck", "--no-dangling")
        assert photograph(mine) == before

    assert sweep(act, check) > 20


@pytest.mark.slow
def test_a_checkout_killed_at_any_moment_can_be_repeated(folder: Path) -> None:
    template = repository(folder / "template")
    write(template, {"x": "file\n", "d/f": "f\n", "gone/away.txt": "away\n"})
    (template / "d" / "link").symlink_to("f")
    home = folder / "home"
    wanted = Snapshots(template, home).take("wanted")
    after = photograph(template, without=(".git",))
    (template / "x").unlink()
    shutil.rmtree(template / "d")
    shutil.rmtree(template / "gone")
    write(template, {"x/y": "folder\n", "d": "file\n", "work.txt": "not committed\n", "a.txt": "changed\n"})
    changed = photograph(template, without=(".git",))
    theirs = photograph(template / ".git")

    def act(number: int) -> Callable[[], object]:
        shutil.copytree(template, folder / f"mine-{number}", symlinks=True)
        return lambda: Snapshots(folder / f"mine-{number}", home).check_out(wanted.tree)

    def check(number: int) -> None:
        mine = folder / f"mine-{number}"
        for path, (mode, content) in photograph(mine, without=(".git", ".perdure-restore")).items():
            assert (mode, content) in (after.get(path), changed.get(path)), "every file is as before or as restored"
        again = Snapshots(mine, home).check_out(wanted.tree)
        assert photograph(mine, without=(".git",)) == after
        assert photograph(mine / ".git") == theirs
        assert again.after.tree == wanted.tree
        shutil.rmtree(mine)

    assert sweep(act, check) > 60
    for path in ("x/y", "d", "work.txt", "a.txt"):
        name = git(template, "hash-object", "--no-filters", path).strip()
        git(home / "git", "--git-dir=.", "cat-file", "-e", name)  # what was overwritten or removed is kept


@pytest.mark.slow
def test_a_kill_during_pruning_deletes_nothing_that_is_kept(folder: Path) -> None:
    mine, home = repository(folder / "mine"), folder / "template"
    commits = []
    for number in range(4):
        write(mine, {"a.txt": f"{number}\n"})
        commits.append(Snapshots(mine, home).take(f"{number}").commit)
    before = photograph(mine)

    def act(number: int) -> Callable[[], object]:
        shutil.copytree(home, folder / f"home-{number}")
        return lambda: Snapshots(mine, folder / f"home-{number}").prune(commits[:2], grace=0)

    def check(number: int) -> None:
        snapshots = Snapshots(mine, folder / f"home-{number}")
        for _ in range(2):
            assert [snapshots.read(commit, "a.txt") for commit in commits[:2]] == [b"0\n", b"1\n"]
            assert snapshots.take("same").commit == commits[3]
            snapshots.prune(commits[:2], grace=0)
        with pytest.raises(NotFound):
            snapshots.files(commits[2])
        assert photograph(mine) == before

    assert sweep(act, check) > 8


HOLDER = """
import os, sys
from pathlib import Path
from perdure.agent.files.snapshot import Snapshots
with Snapshots(Path(sys.argv[1]), Path(sys.argv[2])).lock() as store:
    process = store.start("cat-file", "--batch", stdin=os.open(sys.argv[3], os.O_RDONLY))
    print(process.pid, flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
def test_a_git_that_outlives_its_process_keeps_the_lock(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, home, pipe = repository(folder / "mine"), folder / "home", folder / "pipe"
    Snapshots(mine, home).take("first")
    os.mkfifo(pipe)
    command = [sys.executable, "-c", HOLDER, str(mine), str(home), str(pipe)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder, open(pipe, "wb"):
        assert holder.stdout is not None
        assert holder.stdout.readline()
        (lock := home / "git" / "packed-refs.lock").write_bytes(b"held by git")
        holder.kill()
        holder.wait()
        with monkeypatch.context() as patience:
            patience.setattr("perdure.agent.files.object_store.LOCK_SECONDS", 0.05)
            with pytest.raises(StoreUnavailable):
                Snapshots(mine, home).take("second")
        assert lock.exists(), "it may be the living git's"
    Snapshots(mine, home).take("second")
    assert not lock.exists()
