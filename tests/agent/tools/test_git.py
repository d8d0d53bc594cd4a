"""Git tools in a real repository: queries, branches and commits, and lock files of other processes."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from perdure import faults
from perdure.agent.files.workspace import Workspace
from perdure.agent.git import lock
from perdure.agent.tools.git import git_diff, git_log, git_status
from perdure.errors import NotDone
from perdure.testing.proxy import wait_until
from tests.agent.support.tool_calls import ALONE, NAMED, call, do, prepared, probe, run_git, trust_hooks, write_hook
from tests.forked import fork

KEY = "k" * 64


def subjects(folder: Path, ref: str = "HEAD") -> list[str]:
    return run_git(folder, "log", "--format=%s", ref).splitlines()


@pytest.mark.slow
def test_queries_show_the_state_of_the_repository(repository: Path) -> None:
    (repository / "a.txt").write_text("two\n")
    (repository / "new.txt").write_text("")
    assert git_status().text.splitlines() == ["## main", " M a.txt", "?? new.txt"]
    assert "-one\n+two" in git_diff().text
    assert "+two" in git_diff("a.txt").text
    assert git_diff("new.txt").text == "Nothing differs."
    assert git_log().text.endswith("Ada: first")


def test_queries_report_a_missing_repository(folder: Path) -> None:
    run_git(folder, "init", "--quiet")
    (folder / "inner").mkdir()
    with Workspace(folder / "inner", session_uid="u").active():
        for look in (git_status, git_diff, git_log):
            with pytest.raises(NotDone, match="not a git repository"):
                look()


@pytest.mark.slow
def test_a_repository_without_commits_can_be_queried_and_committed_to(work_folder: Path) -> None:
    run_git(work_folder, "init", "--quiet")
    (work_folder / "kept").mkdir()
    assert git_log().text == "There are no commits yet."
    (work_folder / "a.txt").write_text("one\n")
    run_git(work_folder, "add", "a.txt")
    assert "+one" in git_diff().text
    arguments = prepared("git_commit", {"message": "first"}, {})
    assert arguments["before"] is None
    assert probe("git_commit", arguments).said == "absent"
    do("git_commit", arguments)
    assert probe("git_commit", arguments).said == "happened"
    assert subjects(work_folder) == ["first"]


@pytest.mark.slow
def test_git_variables_do_not_redirect_git(repository: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = folder / "other"
    other.mkdir()
    run_git(other, "init", "--quiet")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / "index"))
    monkeypatch.setenv("GIT_EDITOR", "false")
    (repository / "a.txt").write_text("two\n")
    call("git_commit", message="second")
    assert subjects(repository) == ["second", "first"]


@pytest.mark.slow
def test_a_commit_carries_its_key_and_is_found_by_it(repository: Path) -> None:
    (repository / "a.txt").write_text("two\n")
    (repository / "b.txt").write_text("new\n")
    arguments = prepared("git_commit", {"message": "second\n\nCloses: #7"}, {})
    assert probe("git_commit", arguments).said == "absent"
    said = do("git_commit", arguments)
    assert "second" in said.text
    assert "b.txt" in said.text
    assert run_git(repository, "log", "-1", "--format=%B") == f"second\n\nCloses: #7\nPerdure-Effect: {KEY}"
    outcome = probe("git_commit", arguments)
    assert (outcome.said, outcome.result) == ("happened", said)
    assert outcome.reference == run_git(repository, "rev-parse", "HEAD")
    assert do("git_commit", arguments) == said
    assert subjects(repository) == ["second", "first"]


def test_a_commit_that_was_reset_still_happened(repository: Path) -> None:
    (repository / "a.txt").write_text("two\n")
    arguments = prepared("git_commit", {"message": "second"}, {})
    do("git_commit", arguments)
    run_git(repository, "reset", "--quiet", "--hard", "HEAD~1")
    assert probe("git_commit", arguments).said == "happened"


@pytest.mark.slow
def test_only_the_named_paths_are_committed(repository: Path) -> None:
    for name in ("a.txt", "b.txt", "*.txt", "c.txt"):
        (repository / name).write_text("two\n")
    run_git(repository, "add", "c.txt")
    (repository / "link").symlink_to("/etc/passwd")
    call("git_commit", message="some", paths=["./b.txt", "*.txt", "link"])
    assert run_git(repository, "show", "--name-only", "--format=").splitlines() == ["*.txt", "b.txt", "link"]
    (repository / "b.txt").unlink()
    call("git_commit", key="l" * 64, message="gone", paths=["b.txt"])
    assert run_git(repository, "show", "--name-status", "--format=") == "D\tb.txt"


@pytest.mark.parametrize(
    "path", ["..", "../outside/secret.txt", "/etc/passwd", ".git/config", "a\0b", ":(top)", "none"]
)
def test_no_path_outside_is_committed(path: str, repository: Path) -> None:
    (repository / "a.txt").write_text("two\n")
    with pytest.raises(NotDone):
        call("git_commit", message="some", paths=[path])
    assert subjects(repository) == ["first"]


@pytest.mark.slow
def test_protected_files_are_not_committed(repository: Path) -> None:
    (repository / "kept/store.db").write_text("x")
    with pytest.raises(NotDone, match="nothing to commit"):
        call("git_commit", message="all")
    (repository / "b.txt").write_text("x")
    call("git_commit", message="all")
    assert run_git(repository, "show", "--name-only", "--format=") == "b.txt"


@pytest.mark.slow
def test_nothing_to_commit_proves_absence(repository: Path) -> None:
    with pytest.raises(NotDone, match="nothing to commit"):
        call("git_commit", message="nothing")
    (repository / "a.txt").write_text("two\n")
    arguments = prepared("git_commit", {"message": "second"}, {})
    (repository / "a.txt").write_text("one\n")
    with pytest.raises(NotDone, match="nothing to commit"):
        do("git_commit", arguments)
    for message in ("", " \n", "x" * 30_000):
        with pytest.raises(NotDone, match="message"):
            call("git_commit", message=message)


@pytest.mark.slow
def test_a_commit_without_an_identity_uses_a_default(
    repository: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    (repository / "a.txt").write_text("two\n")
    call("git_commit", message="second")
    assert run_git(repository, "log", "-1", "--format=%an <%ae> %cn").startswith("Perdure agent <")
    run_git(repository, "config", "user.name", "Grace")
    run_git(repository, "config", "user.email", "grace@example.org")
    (repository / "a.txt").write_text("three\n")
    call("git_commit", key="l" * 64, message="third")
    assert run_git(repository, "log", "-1", "--format=%an <%ae>") == "Grace <grace@example.org>"


@pytest.mark.slow
def test_hooks_run_and_a_refusal_is_a_result(repository: Path) -> None:
    (repository / "hook.log").touch()  # where Landlock is the sandbox, a hook may not add files beside .git
    write_hook(repository / ".git/hooks/pre-commit", "echo run >> hook.log; echo style is wrong; exit 1\n")
    (repository / "a.txt").write_text("two\n")
    said = call("git_commit", message="second", paths=["a.txt"])
    assert said.failed
    assert "style is wrong" in said.text
    assert (repository / "hook.log").read_text() == "run\n"
    assert subjects(repository) == ["first"]


@pytest.mark.slow
def test_a_hook_that_removes_the_trailer_is_detected(repository: Path) -> None:
    write_hook(repository / ".git/hooks/commit-msg", "sed -i /Perdure-Effect/d $1\n")
    (repository / "a.txt").write_text("two\n")
    arguments = prepared("git_commit", {"message": "second"}, {})
    do("git_commit", arguments)
    outcome = probe("git_commit", arguments)
    assert outcome.said == "unknown"
    assert "trailer" in (outcome.why or "")


def test_a_commit_goes_to_the_branch_it_was_meant_for(repository: Path) -> None:
    (repository / "a.txt").write_text("two\n")
    arguments = prepared("git_commit", {"message": "second"}, {})
    run_git(repository, "switch", "--quiet", "-c", "other")
    with pytest.raises(NotDone, match="Another branch"):
        do("git_commit", arguments)
    run_git(repository, "switch", "--quiet", "--detach")
    with pytest.raises(NotDone, match="No branch"):
        call("git_commit", message="second")


def test_a_lock_of_another_process_is_respected(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "TRIES", 2)
    (repository / "a.txt").write_text("two\n")
    arguments = prepared("git_commit", {"message": "second"}, {})
    (repository / ".git/index.lock").write_text("")
    os.utime(repository / ".git/index.lock", (0, 0))
    with pytest.raises(NotDone, match=r"index\.lock"):
        do("git_commit", arguments)
    assert (repository / ".git/index.lock").exists()


@pytest.mark.slow
def test_a_lock_left_by_our_dead_git_is_removed(repository: Path, own_home: Path) -> None:
    """The worker and its git are killed inside a hook, while git holds the index."""
    trust_hooks(repository, own_home)  # in the sandbox it could not kill git
    write_hook(repository / ".git/hooks/pre-commit", "kill -9 $PPID\n")
    (repository / "a.txt").write_text("two\n")
    arguments = prepared("git_commit", {"message": "second", "paths": ["a.txt"]}, {})

    def commit_and_die() -> None:
        faults.arm(lambda name: died() if name == "git.after" and (repository / ".git/index.lock").exists() else None)
        do("git_commit", arguments)

    pid = fork(commit_and_die)
    assert os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    assert (repository / ".git/index.lock").exists()
    write_hook(repository / ".git/hooks/pre-commit", "exit 0\n")
    assert probe("git_commit", arguments).said == "absent"
    do("git_commit", arguments)
    assert subjects(repository) == ["second", "first"]


def died() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_living_git_keeps_its_lock_despite_our_mark(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """We died here once; since then a person's git has come, and waits in a hook with the index locked."""
    monkeypatch.setattr(lock, "TRIES", 2)
    (repository / "a.txt").write_text("two\n")
    arguments = prepared("git_commit", {"message": "second"}, {})
    (repository / ".git/perdure.lock").write_text("begun\n")
    os.mkfifo(repository / ".git/go")
    write_hook(repository / ".git/hooks/pre-commit", "mkdir .git/inside 2> .git/err && read line < .git/go; exit 0\n")
    theirs = subprocess.Popen(["git", *NAMED, "commit", "--quiet", "-am", "theirs"], cwd=repository, env=ALONE)
    try:
        wait_until((repository / ".git/index.lock").exists, "their git holds the index")
        with pytest.raises(NotDone, match=r"index\.lock"):
            do("git_commit", arguments)
        assert (repository / ".git/index.lock").exists()
    finally:
        (repository / ".git/go").write_text("go\n")
        assert theirs.wait() == 0
    assert subjects(repository) == ["theirs", "first"]


@pytest.mark.slow
def test_a_git_that_outlives_its_worker_is_waited_for(repository: Path) -> None:
    """The worker is killed while git waits in a hook. A probe that did not wait would find nothing yet."""
    (repository / "a.txt").write_text("two\n")
    os.mkfifo(repository / "go")
    (repository / "src").mkdir()  # where Landlock is the sandbox, a hook may not add files beside .git
    write_hook(repository / ".git/hooks/pre-commit", "echo > src/inside; read line < go\n")
    arguments = prepared("git_commit", {"message": "second", "paths": ["a.txt"]}, {})
    worker = fork(lambda: do("git_commit", arguments))
    wait_until((repository / "src/inside").exists, "the hook runs")
    os.kill(worker, signal.SIGKILL)
    os.waitpid(worker, 0)

    def release() -> None:
        lock = os.stat(repository / ".git/perdure.lock").st_ino
        wait_until(lambda: f":{lock} " in _waiting_for_locks(), "the probe waits")
        (repository / "go").write_text("go\n")

    releaser = fork(release)
    assert probe("git_commit", arguments).said == "happened"
    assert os.waitpid(releaser, 0)[1] == 0
    do("git_commit", arguments)
    assert subjects(repository) == ["second", "first"]


def _waiting_for_locks() -> str:
    return "\n".join(line for line in Path("/proc/locks").read_text().splitlines() if "->" in line)


@pytest.mark.slow
def test_a_branch_is_created_and_checked_out(repository: Path) -> None:
    (repository / "a.txt").write_text("not committed\n")
    arguments = prepared("git_branch", {"name": "fix/one"}, {})
    assert probe("git_branch", arguments).said == "absent"
    said = do("git_branch", arguments)
    assert said.text == "The branch is now fix/one."
    assert run_git(repository, "branch", "--show-current") == "fix/one"
    assert (repository / "a.txt").read_text() == "not committed\n"
    assert probe("git_branch", arguments).result == said
    assert do("git_branch", arguments) == said
    run_git(repository, "switch", "--quiet", "main")
    assert prepared_fails("fix/one") == "Branch fix/one exists already."


def prepared_fails(name: str) -> str:
    with pytest.raises(NotDone) as caught:
        prepared("git_branch", {"name": name}, {})
    return caught.value.message


@pytest.mark.slow
def test_a_created_branch_is_checked_out_by_the_next_attempt(repository: Path) -> None:
    arguments = prepared("git_branch", {"name": "half"}, {})
    run_git(repository, "branch", "half")
    assert probe("git_branch", arguments).said == "absent"
    do("git_branch", arguments)
    assert run_git(repository, "branch", "--show-current") == "half"


@pytest.mark.slow
def test_a_branch_that_was_moved_is_unknown(repository: Path) -> None:
    arguments = prepared("git_branch", {"name": "half"}, {})
    run_git(repository, "branch", "half")
    run_git(repository, "switch", "--quiet", "-c", "third")
    assert probe("git_branch", arguments).said == "unknown"
    with pytest.raises(NotDone, match="Another branch"):
        do("git_branch", arguments)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["", "-d", "--orphan", "a b", "a..b", "HEAD", "x.lock", "@{-1}", "a\0b", "a/", "main"])
def test_an_invalid_name_creates_no_branch(name: str, repository: Path) -> None:
    assert prepared_fails(name)
    assert run_git(repository, "branch", "--format=%(refname:short)") == "main"
