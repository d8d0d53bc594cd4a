"""Hooks and filters that git runs: they belong to the user, but what they run lies in the folder of the agent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.agent.commands import bubblewrap, executables, sandbox
from perdure.agent.commands.sandbox import Level
from perdure.agent.files.workspace import Workspace, here
from perdure.agent.git.sandboxed_git import level_of
from perdure.agent.tools.git import git_diff, git_status
from perdure.errors import NotDone
from perdure.ids import new_uid
from tests.agent.commands.test_sandbox import NO_SANDBOX
from tests.agent.support.requirements import need_bubblewrap, need_landlock
from tests.agent.support.sandbox_run import running_with, until
from tests.agent.support.tool_calls import call, do, prepared, probe, run_git, trust_hooks, write_hook
from tests.forked import fork


@pytest.fixture(scope="module")
def without_bubblewrap(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A path with every program of this machine but bubblewrap."""
    programs = tmp_path_factory.mktemp("programs")
    for work_folder in ("/usr/local/bin", "/usr/bin", "/bin"):
        for program in Path(work_folder).iterdir() if Path(work_folder).is_dir() else ():
            if program.name != "bwrap" and not os.path.lexists(programs / program.name):
                (programs / program.name).symlink_to(program)
    return programs


@pytest.fixture(params=(Level.BUBBLEWRAP, Level.LANDLOCK))
def level(request: pytest.FixtureRequest, without_bubblewrap: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Level]:
    """This machine as it is, and as it would be without bubblewrap."""
    need_bubblewrap()
    if request.param is Level.LANDLOCK:
        need_landlock()
        monkeypatch.setenv("PATH", str(without_bubblewrap))
    for one in (executables._find, bubblewrap.probe):
        one.cache_clear()
    assert sandbox.available() is request.param
    yield request.param
    for one in (executables._find, bubblewrap.probe):
        one.cache_clear()


@pytest.fixture
def secret(folder: Path) -> Path:
    """A file outside that nothing in the folder may change."""
    return folder / "outside" / "secret.txt"


def is_safe(secret: Path) -> bool:
    return secret.read_text() == "secret\n" and [one.name for one in secret.parent.iterdir()] == ["secret.txt"]


def attack(secret: Path) -> str:
    return f"echo broken > {secret}; echo broken > {secret.parent}/new; echo did >> did; true"


@pytest.mark.slow
def test_a_hook_written_by_the_agent_changes_nothing_outside(level: Level, repository: Path, secret: Path) -> None:
    run_git(repository, "config", "core.hooksPath", ".husky")
    for name in ("pre-commit", "commit-msg", "post-commit", "post-checkout", "pre-push", "reference-transaction"):
        call("write_file", path=f".husky/{name}", content=f"#!/bin/sh\n{attack(secret)}\n")
        (repository / ".husky" / name).chmod(0o755)  # as a command may
    call("git_commit", message="second", paths=[".husky"])
    call("git_branch", name="fix")
    call("git_push")
    assert is_safe(secret)
    assert (repository / "did").exists() == (level is Level.BUBBLEWRAP)  # Landlock lets nothing new be made beside .git


@pytest.mark.slow
def test_a_hook_that_runs_agent_code_changes_nothing_outside(level: Level, repository: Path, secret: Path) -> None:
    write_hook(repository / ".git/hooks/pre-commit", "sh ./check.sh\n")
    call("write_file", path="check.sh", content=attack(secret))
    assert "Committed" in call("git_commit", message="second").text
    assert is_safe(secret)


@pytest.mark.slow
@pytest.mark.usefixtures("level")
@pytest.mark.parametrize(
    "attack",
    [
        "echo evil > .git/hooks/post-commit",
        "git config core.fsmonitor ./evil",
        "echo ../evil > .git/commondir",
        "rm -rf .git/objects .git/refs",
        "git update-ref refs/heads/main 4b825dc642cb6eb9a060e54bf8d69288fbee4904",
        "mv .git elsewhere; git init -q .",
    ],
)
def test_a_hook_cannot_write_into_git(attack: str, repository: Path) -> None:
    write_hook(repository / ".git/hooks/pre-commit", f"{attack}; exit 1\n")
    before = contents(repository / ".git")
    (repository / "a.txt").write_text("two\n")
    said = call("git_commit", message="second", paths=["a.txt"])
    assert said.failed
    after = contents(repository / ".git")
    made = {name for name in after if after[name] != before.get(name)}
    assert {name for name in made if not name.startswith("objects/")} <= {"index", "perdure.lock", "COMMIT_EDITMSG"}
    assert before.keys() <= after.keys()


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("paths", [None, ["a.txt", "gone.txt"]], ids=["all", "some"])
def test_files_staged_by_a_hook_are_committed(paths: list[str] | None, repository: Path) -> None:
    (repository / "gone.txt").write_text("unwanted\n")
    (repository / "src").mkdir()
    (repository / "src/made.txt").write_text("")
    run_git(repository, "add", "src")
    format = "echo tidy > a.txt; echo made > src/made.txt; git add a.txt src/made.txt; git rm -q --cached gone.txt\n"
    write_hook(repository / ".git/hooks/pre-commit", format)
    (repository / "a.txt").write_text("two\n")
    call("git_commit", message="second", paths=paths)
    assert run_git(repository, "show", "HEAD:a.txt") == "tidy"
    assert run_git(repository, "show", "HEAD:src/made.txt") == "made"
    assert run_git(repository, "ls-tree", "-r", "--name-only", "HEAD").splitlines() == ["a.txt", "src/made.txt"]
    assert run_git(repository, "fsck", "--full", "--strict", "--no-dangling") == ""


@pytest.mark.slow
def test_a_hook_may_stash_in_a_copy_of_the_refs(repository: Path) -> None:
    need_bubblewrap()
    write_hook(
        repository / ".git/hooks/pre-commit",
        "set -e; git stash store -m backup $(git stash create); git stash list | grep backup; git stash drop\n",
    )
    (repository / "a.txt").write_text("two\n")
    assert "Committed" in call("git_commit", message="second").text
    assert run_git(repository, "for-each-ref", "refs/stash") == ""


@pytest.mark.slow
@pytest.mark.usefixtures("level")
def test_a_hook_can_change_the_message_but_not_read_secrets(repository: Path, secret: Path) -> None:
    write_hook(repository / ".git/hooks/commit-msg", 'echo "Checked: yes" >> "$1"\n')
    (repository / "a.txt").write_text("two\n")
    call("git_commit", message="second\n\nCloses: #7")
    assert "\nChecked: yes" in run_git(repository, "log", "-1", "--format=%B")
    write_hook(repository / ".git/hooks/commit-msg", f'ln -sf {secret} "$1"\n')
    (repository / "a.txt").write_text("three\n")
    assert call("git_commit", key="l" * 64, message="third").failed
    assert "secret" not in run_git(repository, "log", "--all", "--reflog", "--format=%B")


@pytest.mark.slow
@pytest.mark.usefixtures("level")
def test_a_filter_written_by_the_agent_changes_nothing_outside(repository: Path, secret: Path) -> None:
    run_git(repository, "config", "filter.tidy.clean", "sh ./tidy.sh %f")
    run_git(repository, "config", "filter.tidy.smudge", "sh ./tidy.sh %f")
    (repository / ".gitattributes").write_text("*.txt filter=tidy\n")
    (repository / "tidy.sh").write_text(f"{attack(secret)}\ntr a-z A-Z\necho $1\n")
    (repository / "it's new.txt").write_text("new\n")
    (repository / "a.txt").write_text("two\n")
    git_status()
    assert "+TWO" in git_diff("a.txt").text
    call("git_commit", message="second")
    call("git_branch", name="fix")
    assert is_safe(secret)
    assert run_git(repository, "-c", "filter.tidy.smudge=", "show", "HEAD:it's new.txt") == "NEW\nit's new.txt"


@pytest.mark.slow
def test_the_settings_of_a_nested_repository_run_nothing_outside(repository: Path, secret: Path) -> None:
    need_bubblewrap()
    nested = repository / "nested"
    nested.mkdir()
    run_git(nested, "init", "--quiet")
    (nested / "b.txt").write_text("one\n")
    (nested / ".gitattributes").write_text("* filter=evil\n")
    run_git(nested, "add", "--all")
    run_git(nested, "commit", "--quiet", "--message=nested")
    call("git_commit", message="second")
    run_git(nested, "config", "filter.evil.clean", f"{attack(secret)}; cat")
    (nested / "b.txt").write_text("two\n")
    (repository / "a.txt").write_text("two\n")
    git_status()
    git_diff()
    call("git_commit", key="l" * 64, message="third")
    call("git_branch", name="fix")
    (repository / "a.txt").write_text("three\n")
    call("git_commit", key="m" * 64, message="fourth", paths=["a.txt"])
    assert is_safe(secret)


@pytest.mark.slow
@pytest.mark.usefixtures("level")
def test_a_hook_gets_no_lock_no_secret_and_leaves_no_process(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "hush")
    monkeypatch.setenv("PERDURE_STORE", "hush")
    monkeypatch.setenv("PERDURE_ENVIRONMENT", "KEPT_HOOK")
    monkeypatch.setenv("KEPT_HOOK", mark := new_uid())
    write_hook(
        repository / ".git/hooks/pre-commit",
        "echo /proc/self/fd/*; echo $SOME_API_KEY $PERDURE_STORE; setsid sleep 1000 > /dev/null 2>&1 & exit 1\n",
    )
    (repository / "a.txt").write_text("two\n")
    said = call("git_commit", message="second").text
    open_runtime = next(line for line in said.splitlines() if line.startswith("/proc"))
    assert {int(Path(one).name) for one in open_runtime.split()} <= {
        0,
        1,
        2,
        3,
        10,
    }  # the listing, and the shell's own script
    assert "hush" not in said
    assert running_with(f"KEPT_HOOK={mark}") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("credential.helper", "!sh helper.sh"),
        ("credential.https://example.org.helper", "./helper.sh"),
        ("core.sshCommand", "sh {root}/helper.sh -i key"),
        ("include.path", "../settings"),
        ("gpg.program", "./helper.sh"),
        ("hook.mine.command", "true"),
    ],
)
def test_programs_run_outside_the_sandbox_may_not_lie_in_the_folder(key: str, value: str, repository: Path) -> None:
    (repository / "helper.sh").write_text("exit 1\n")
    (repository / "settings").write_text("[user]\n\tname = Eve\n[perdure]\n\thooks = trusted\n")
    (repository / "auth").mkdir()
    run_git(repository, "config", "credential.helper", "!/usr/bin/gh auth git-credential")
    call("git_commit", message="second")
    run_git(repository, "config", "--unset", "credential.helper")
    run_git(repository, "config", key, value.format(root=repository))
    (repository / "a.txt").write_text("two\n")
    for act, given in (("git_commit", {"message": "third"}), ("git_push", {})):
        with pytest.raises(NotDone, match=r"an agent can write|cannot be run"):
            call(act, key="l" * 64, **given)


def test_a_remote_in_the_folder_is_not_pushed_to(repository: Path) -> None:
    run_git(repository, "init", "--quiet", "--bare", "theirs.git")
    for url in ("theirs.git", "./theirs.git", str(repository / "theirs.git"), f"file://{repository}/theirs.git"):
        run_git(repository, "remote", "set-url", "origin", url)
        with pytest.raises(NotDone, match="in the folder"):
            call("git_push")


def test_a_git_that_lies_in_the_folder_is_not_run(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_hook(repository / "bin/git", f"touch {repository}/ran; exit 1\n")
    monkeypatch.setenv("PATH", f"{repository}/bin:{os.environ['PATH']}")
    assert "##" in git_status().text
    assert not (repository / "ran").exists()


def test_trusted_hooks_run_outside_the_sandbox(repository: Path, secret: Path, own_home: Path) -> None:
    write_hook(repository / ".git/hooks/pre-commit", attack(secret))
    trust_hooks(repository, own_home)
    assert level_of(here()) is Level.NONE
    (repository / "a.txt").write_text("two\n")
    call("git_commit", message="second")
    assert secret.read_text() == "broken\n"


@pytest.mark.slow
def test_a_commit_in_a_worktree_runs_its_hook_in_the_sandbox(level: Level, repository: Path, secret: Path) -> None:
    other = repository.parent / "other"
    run_git(repository, "worktree", "add", "--quiet", "-b", "side", str(other))
    (other / "src").mkdir()
    (other / "src/b.txt").write_text("one\n")
    format = f"{attack(secret)}; echo tidy > src/b.txt; git add src/b.txt\n"
    write_hook(repository / ".git/hooks/pre-commit", format)
    with Workspace(other, session_uid="u").active():
        assert level_of(here()) is level
        call("git_commit", message="aside")
    assert run_git(repository, "show", "side:src/b.txt") == "tidy"
    assert is_safe(secret)


REFUSED = """
try:
    with Workspace(Path(sys.argv[1]), session_uid="u").active():
        from tests.agent.support.tool_calls import call
        call("git_commit", message="second")
except NotDone as refused:
    print(refused)
with Workspace(Path(sys.argv[1]), session_uid="u", unsandboxed=True).active():
    print(call("git_commit", message="second").text.splitlines()[0])
"""


@pytest.mark.slow
def test_without_a_sandbox_a_commit_needs_permission(repository: Path, without_bubblewrap: Path) -> None:
    (repository / "a.txt").write_text("two\n")
    line = [sys.executable, "-c", NO_SANDBOX + REFUSED, str(repository)]
    said = subprocess.check_output(line, env=os.environ | {"PATH": str(without_bubblewrap)}, text=True).splitlines()
    assert said[3] == "No sandbox is available here, so the command was not run."
    assert said[4].endswith("second")


@pytest.mark.slow
def test_a_hook_ends_with_git_and_the_commit_is_made_once(
    level: Level, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker, git and the hook runner are killed while a hook runs; the guard ends the hook."""
    monkeypatch.setenv("PERDURE_ENVIRONMENT", "KEPT_HOOK")
    monkeypatch.setenv("KEPT_HOOK", mark := new_uid())
    (repository / "src").mkdir()
    seconds = f"1000.{int(mark[-8:], 16)}"  # an argument that no other process has
    write_hook(repository / ".git/hooks/pre-commit", f"echo > src/inside; exec sleep {seconds}\n")
    (repository / "a.txt").write_text("two\n")
    arguments = prepared("git_commit", {"message": "second", "paths": ["a.txt"]}, {})
    worker = fork(lambda: do("git_commit", arguments))
    until((repository / "src/inside").exists)
    outside = [int(pid) for pid in running_with(f"KEPT_HOOK={mark}") if runs_outside(pid)]
    assert len(outside) == 3, f"git, the hook runner and its guard, at {level}"
    (guard,) = [pid for pid in outside if parent_of(pid) in outside and pid in map(parent_of, outside)]
    for pid in (worker, *(pid for pid in outside if pid != guard)):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(worker, 0)
    until(lambda: running_with(f"KEPT_HOOK={mark}") == [])
    assert [pid for pid in processes() if seconds.encode() in command_line_of(pid)] == []
    write_hook(repository / ".git/hooks/pre-commit", "exit 0\n")
    assert probe("git_commit", arguments).said == "absent"
    do("git_commit", arguments)
    assert run_git(repository, "log", "--format=%s").splitlines() == ["second", "first"]


def processes() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdigit()]


def command_line_of(pid: str) -> list[bytes]:
    try:
        return Path("/proc", pid, "cmdline").read_bytes().split(b"\0")
    except OSError:  # it has ended
        return []


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def runs_outside(pid: str) -> bool:
    line = command_line_of(pid)
    return b"commit" in line or b"hook" in line
