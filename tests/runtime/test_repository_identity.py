"""A repository is known by its remote, or by its first commit, and not by its folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from perdure import Session, program
from perdure.runtime.start.repository_identity import LONGEST, identify, normalise
from tests.runtime.support.scripted_world import World

DATES = ("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE")


def git(folder: Path, *arguments: str, at: int = 1000) -> None:
    identity = ("-c", "user.name=ada", "-c", "user.email=ada@localhost", "-c", "protocol.file.allow=always")
    dates = dict.fromkeys(DATES, f"@{at} +0000")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, env=os.environ | dates)


def a_repository(folder: Path, *, word: str = "first") -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "file").write_text(word)
    git(folder, "add", "file")
    git(folder, "commit", "--quiet", "-m", word)
    return folder


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/Org/App.git",
        "https://github.com/org/app",
        "https://ada:secret@github.com/org/app.git/",
        "https://token@GitHub.com:443/org//app.git",
        "git@github.com:org/app.git",
        "github.com:/org/app",
        "ssh://git@github.com/org/app.git",
        "ssh://git@ssh.github.com:443/org/app",
        "git+ssh://git@github.com:22/org/app.git",
        "git://github.com:9418/org/app.git",
        "https://github.com/org/app.git?token=secret#secret",
    ],
)
def test_every_form_of_a_remote_is_one_repository(url: str) -> None:
    assert normalise(url) == "github.com/org/app"


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://git.example.org:8443/App.git", "git.example.org:8443/App"),
        ("ssh://git@git.example.org:2222/App.git", "git.example.org/App"),
        ("ada@[::1]:app", "::1/app"),
        ("https://host/~ada/app", "host/~ada/app"),
    ],
)
def test_other_hosts_keep_case_and_port(url: str, name: str) -> None:
    assert normalise(url) == name


@pytest.mark.parametrize(
    "url",
    ["", "https://", "https://host", "https://host/.git", "https://h:x/a", "a/b", "git@host:", "h\x07:a", "xx"],
)
def test_what_names_no_repository_has_no_identity(url: str) -> None:
    assert normalise(url) is None
    assert normalise(f"https://host/{'x' * LONGEST}") is None


def test_clones_worktrees_and_branches_are_one_repository(folder: Path) -> None:
    first = a_repository(folder / "first")
    known = identify(first)
    assert known is not None
    assert known.startswith("commit:")
    git(folder, "clone", "--quiet", "first", "second")
    git(first, "worktree", "add", "--quiet", "-b", "topic", "../topic")
    git(folder, "clone", "--quiet", "--bare", "first", "bare.git")
    git(folder, "clone", "--quiet", "bare.git", "third")
    (first / "below").mkdir()
    names = ("second", "topic", "bare.git", "third", "first/below")
    assert {identify(folder / name) for name in names} == {known}
    assert identify(a_repository(folder / "other", word="other")) != known


def test_an_unrelated_branch_does_not_change_the_identity(folder: Path) -> None:
    first = a_repository(folder / "first")
    known = identify(first)
    git(first, "checkout", "--quiet", "--orphan", "pages")
    git(first, "commit", "--quiet", "-m", "pages", at=2000)
    os.utime(first / ".git" / "config", ns=(1, 1))  # what is remembered counts no longer
    assert identify(first) == known


def test_clones_of_one_remote_are_one_repository(folder: Path) -> None:
    for name, url in (("a", "git@github.com:org/app.git"), ("b", "https://ada:secret@github.com/org/app")):
        git(a_repository(folder / name, word=name), "remote", "add", "origin", url)
    git(folder, "clone", "--quiet", "a", "c")
    assert {identify(folder / name) for name in "abc"} == {"github.com/org/app"}


def test_a_changed_remote_is_seen(folder: Path) -> None:
    first = a_repository(folder / "first")
    before = identify(first)
    git(first, "remote", "add", "upstream", "git@github.com:org/app.git")
    assert (before or "").startswith("commit:")
    assert identify(first) == "github.com/org/app"


def test_remotes_that_are_each_other_end(folder: Path) -> None:
    one, other = a_repository(folder / "one"), a_repository(folder / "other", word="other")
    git(one, "remote", "add", "origin", str(other))
    git(other, "remote", "add", "origin", f"file://{one}")
    assert (identify(one) or "").startswith("commit:")


def test_a_folder_that_points_into_another_repository_has_no_identity(folder: Path) -> None:
    first = a_repository(folder / "first")
    (folder / "thief").mkdir()
    (folder / "thief" / ".git").write_text(f"gitdir: {first / '.git'}\n")
    assert identify(folder / "thief") is None
    assert identify(folder / "nowhere") is None
    assert identify(None) is None


def test_settings_of_a_repository_start_no_program(folder: Path) -> None:
    first = a_repository(folder / "first")
    for name in ("core.fsmonitor", "core.sshCommand", "core.pager", "alias.rev-list", "core.alternateRefsCommand"):
        git(first, "config", name, f"touch {folder / 'ran'}")
    assert identify(first) is not None
    assert not (folder / "ran").exists()


@program
async def identity_work(s: Session) -> None:
    if s.id == "parent":
        await s.child(identity_work.bind(), id="child")


@pytest.mark.databases("sqlite")
async def test_sessions_children_and_branches_have_the_identity(world: World, folder: Path) -> None:
    git(a_repository(folder / "a"), "remote", "add", "origin", "git@github.com:org/app.git")
    await world.rt.start(identity_work.bind(), id="parent", repository=folder / "a")
    await world.rt.run("parent")
    await world.rt.fork("parent", id="branch")
    await world.rt.start_many([identity_work.bind()], ids=["many"], repository=folder / "a")
    await world.rt.add_schedule("nightly", identity_work.bind(), every="1h", repository=folder / "a")
    ticked = await world.rt.trigger_schedule("nightly")
    for name in ("parent", "child", "branch", "many", ticked.id):
        assert (await world.rt.get(name)).repository_id == "github.com/org/app", name
