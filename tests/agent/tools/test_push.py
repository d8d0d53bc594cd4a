"""Pushing to a real remote, and the result of the probe afterwards."""

import shutil
from pathlib import Path

import pytest

from perdure.errors import NotDone
from tests.agent.support.tool_calls import call, do, prepared, probe, run_git, write_hook


@pytest.fixture
def ahead(repository: Path) -> Path:
    """One commit that the remote has not."""
    (repository / "a.txt").write_text("two\n")
    call("git_commit", message="second")
    return repository


@pytest.fixture
def remote(repository: Path) -> Path:
    return repository.with_name(repository.name + ".remote")


def push_from_elsewhere(remote: Path, folder: Path, subject: str) -> str:
    """Push from another clone."""
    clone = folder / f"clone-{subject}"
    run_git(folder, "clone", "--quiet", str(remote), str(clone))
    (clone / "theirs.txt").write_text(subject)
    run_git(clone, "add", "--all")
    run_git(clone, "commit", "--quiet", "-m", subject)
    run_git(clone, "push", "--quiet", "origin", "main")
    return run_git(clone, "rev-parse", "HEAD")


@pytest.mark.slow
def test_a_push_is_detected_by_the_commit_of_the_remote(ahead: Path, remote: Path) -> None:
    arguments = prepared("git_push", {}, {})
    assert (arguments["branch"], arguments["remote"]) == ("main", "origin")
    assert probe("git_push", arguments).said == "absent"
    said = do("git_push", arguments)
    assert run_git(remote, "log", "--format=%s", "main").splitlines() == ["second", "first"]
    outcome = probe("git_push", arguments)
    reference = f"origin refs/heads/main {arguments['commit']}"
    assert (outcome.said, outcome.result, outcome.reference) == ("happened", said, reference)
    assert do("git_push", arguments) == said
    with pytest.raises(NotDone, match="already"):
        prepared("git_push", {}, {})
    assert "ahead" not in run_git(ahead, "status", "--short", "--branch")


@pytest.mark.slow
def test_a_new_branch_is_pushed(ahead: Path, remote: Path) -> None:
    call("git_branch", name="fix")
    arguments = prepared("git_push", {"branch": "fix"}, {})
    assert arguments["remote_before"] is None
    assert probe("git_push", arguments).said == "absent"
    do("git_push", arguments)
    assert probe("git_push", arguments).said == "happened"
    assert run_git(remote, "branch", "--format=%(refname:short)").splitlines() == ["fix", "main"]


@pytest.mark.slow
def test_a_remote_ahead_of_our_commit_contains_it(ahead: Path, remote: Path, folder: Path) -> None:
    arguments = prepared("git_push", {}, {})
    do("git_push", arguments)
    refs = run_git(ahead, "for-each-ref")
    push_from_elsewhere(remote, folder, "third")
    assert probe("git_push", arguments).said == "happened"
    assert run_git(ahead, "for-each-ref") == refs


@pytest.mark.slow
def test_a_diverged_remote_is_unknown_and_not_forced(ahead: Path, remote: Path, folder: Path) -> None:
    arguments = prepared("git_push", {}, {})
    theirs = push_from_elsewhere(remote, folder, "theirs")
    outcome = probe("git_push", arguments)
    assert outcome.said == "unknown"
    with pytest.raises(NotDone, match="moved meanwhile"):
        do("git_push", arguments)
    with pytest.raises(NotDone, match="moved meanwhile"):
        call("git_push")
    run_git(ahead, "fetch", "--quiet")
    with pytest.raises(NotDone, match="Nothing was pushed"):
        call("git_push")
    assert run_git(remote, "rev-parse", "main") == theirs


@pytest.mark.parametrize("seen", ["never", "long ago"])
def test_a_remote_last_seen_at_another_commit_is_pushed_to(seen: str, ahead: Path, remote: Path) -> None:
    if seen == "never":
        run_git(ahead, "update-ref", "-d", "refs/remotes/origin/main")
    else:
        run_git(ahead, "commit", "--quiet", "--allow-empty", "--message=third")
        run_git(ahead, "push", "--quiet", str(remote), "main~1:main")  # by its address, so no ref is moved
    arguments = prepared("git_push", {}, {})
    assert arguments["remote_before"] != run_git(remote, "rev-parse", "main")
    assert probe("git_push", arguments).said == "absent"
    do("git_push", arguments)
    assert run_git(remote, "rev-parse", "main") == arguments["commit"]


@pytest.mark.slow
def test_a_refusal_of_the_remote_proves_absence(ahead: Path, remote: Path) -> None:
    write_hook(remote / "hooks/pre-receive", "echo not on a Sunday; exit 1\n")
    with pytest.raises(NotDone, match="not on a Sunday"):
        call("git_push")


@pytest.mark.slow
def test_the_hook_runs_once_and_its_refusal_proves_absence(ahead: Path, remote: Path) -> None:
    (ahead / "log").touch()  # where Landlock is the sandbox, a hook may change files here but not add any
    write_hook(ahead / ".git/hooks/pre-push", "echo run >> log\n")
    call("git_push")
    assert (ahead / "log").read_text() == "run\n"
    write_hook(ahead / ".git/hooks/pre-push", "echo tests fail; exit 1\n")
    (ahead / "a.txt").write_text("three\n")
    call("git_commit", key="l" * 64, message="third")
    with pytest.raises(NotDone, match="tests fail"):
        call("git_push")
    assert run_git(remote, "log", "-1", "--format=%s", "main") == "second"


@pytest.mark.slow
def test_an_unreachable_remote_leaves_a_doubt_and_gets_nothing(ahead: Path, remote: Path) -> None:
    arguments = prepared("git_push", {}, {})
    shutil.move(remote, remote.with_suffix(".away"))
    with pytest.raises(NotDone, match="ls-remote"):
        do("git_push", arguments)
    assert probe("git_push", arguments).said == "unknown"
    shutil.move(remote.with_suffix(".away"), remote)
    assert probe("git_push", arguments).said == "absent"


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        {"remote": "elsewhere"}, {"remote": "ext::sh -c touch% /tmp/x"}, {"remote": "--all"}, {"remote": "../outside"},
        {"remote": ""}, {"branch": "none"}, {"branch": "-d"}, {"branch": "main:other"}, {"branch": "a\0b"},
    ],
)  # fmt: skip
def test_only_a_known_branch_goes_to_a_known_remote(given: dict[str, str], ahead: Path) -> None:
    with pytest.raises(NotDone):
        prepared("git_push", given, {})


@pytest.mark.slow
def test_a_remote_with_two_addresses_is_refused(ahead: Path, remote: Path) -> None:
    run_git(ahead, "remote", "set-url", "--add", "--push", "origin", str(remote))
    run_git(ahead, "remote", "set-url", "--add", "--push", "origin", str(remote) + "2")
    with pytest.raises(NotDone, match="2 push addresses"):
        prepared("git_push", {}, {})


ADDRESSES = {
    "https://ada:hush@example.org/x.git": "https://example.org/x.git",
    "https://hush@example.org:8443/x.git?token=hush": "https://example.org:8443/x.git",
    "ssh://git:hush@example.org/x.git": "ssh://git@example.org/x.git",
    "git@example.org:team/x.git": "git@example.org:team/x.git",
    "/srv/x.git": "/srv/x.git",
}


def test_the_approval_shows_the_address_without_its_password(ahead: Path) -> None:
    for url, shown in ADDRESSES.items():
        run_git(ahead, "remote", "set-url", "origin", url)
        arguments = prepared("git_push", {"address": "https://example.org/another"}, {})
        assert arguments["address"] == shown
        assert "hush" not in str(arguments)
