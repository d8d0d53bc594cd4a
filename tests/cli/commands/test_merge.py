"""`perdure merge`, as a person reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.testing.proxy import wait_until
from tests.agent.support.git_repository import git
from tests.cli.support.repositories import branch, call, make_repository, work, write
from tests.cli.support.terminal import PROGRAMS_FILE, Terminal

READ = call(("read_file", {"path": "a.txt"}))


@pytest.fixture
def repository(terminal: Terminal) -> Path:
    return make_repository(terminal.folder / "work")


@pytest.mark.slow
def test_branch_is_merged_once(terminal: Terminal, repository: Path) -> None:
    work(terminal, [READ, "Read.", call(write("a.txt", "two\n"), write("b.txt", "b\n")), "Done."])
    branch(terminal)
    said = terminal("merge", "b")
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines() == [
        f"b is merged into {repository}, the folder of s:", "  written  a.txt", "  written  b.txt",
    ]  # fmt: skip
    assert (repository / "a.txt").read_text() == "two\n"
    assert terminal("merge", "b").out == f"There is nothing new in b for {repository}, the folder of s.\n"
    found = terminal("merge", "b", "--json").json
    assert (found["branch"], found["parent"], found["merged"].get("written")) == ("b", "s", None)


@pytest.mark.slow
def test_merge_conflicts_need_a_person(terminal: Terminal, repository: Path) -> None:
    work(terminal, [READ, "Read.", call(write("a.txt", "theirs\n")), "Done."])
    branch(terminal)
    (repository / "a.txt").write_text("ours\n")
    said = terminal("merge", "b")
    assert said.code == 3
    assert said.out.splitlines() == [
        f"1 conflict; nothing was written to {repository}, the folder of s:",
        "  a.txt (contents)",
        "`perdure diff b --parent` shows both sides. Change one and merge again, or",
        "run `perdure merge b --mark` to write the conflicts between markers.",
    ]
    assert (repository / "a.txt").read_text() == "ours\n"
    marked = terminal("merge", "b", "--mark")
    assert (marked.code, marked.out.splitlines()[-1]) == (3, "  a.txt (contents)")
    assert "<<<<<<<" in (repository / "a.txt").read_text()


def test_what_cannot_be_merged_is_refused(terminal: Terminal, repository: Path) -> None:
    assert repository.is_dir()
    work(terminal, ["Hello."])
    assert "is not a branch" in terminal("merge", "s").err
    terminal("fork", "s", "--id", "b")
    said = terminal("merge", "b")
    assert (said.code, "has no folder here yet" in said.err) == (1, True)


@pytest.mark.slow
@pytest.mark.parametrize("busy", ["s", "b"])
def test_merge_is_refused_while_another_process_works(terminal: Terminal, repository: Path, busy: str) -> None:
    hold = call(("user_hold", {"folder": str(terminal.folder)}))
    script = ["Hello.", hold if busy == "s" else call(write("b.txt", "b\n")), "Let go.", hold, "Let go too."]
    work(terminal, script, "--app", PROGRAMS_FILE, "--tool", "write_file", "--tool", "user_hold")
    if busy == "s":
        assert terminal("fork", "s", "--id", "b").code == 0
        assert terminal("resume", "b").code == 0
    else:
        branch(terminal)
    terminal("send", busy, "hold")
    process = terminal.start("resume", busy)
    held = terminal.folder / "held"
    wait_until(held.exists, "it is at work")
    said = terminal("merge", "b")
    held.unlink()
    process.communicate()
    assert (said.code, f"runs session {busy} in " in said.err) == (4, True)
    assert not (repository / "b.txt").exists()
    assert terminal("merge", "b").code == 0


@pytest.mark.slow
def test_merge_shows_how_to_merge_commits(terminal: Terminal, repository: Path) -> None:
    work(terminal, [READ, "Read.", call(write("b.txt", "b\n")), "Done."])
    branch(terminal)
    (effect,) = [one for one in terminal("effects", "--json").lines if one["tool"] == "open_worktree"]
    folder = Path(str(effect["result"]).strip('"'))
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=in the branch")
    commit = git(folder, "rev-parse", "HEAD").strip()[:12]
    said = terminal("merge", "b").out.splitlines()
    assert said[-1] == f"Files are merged, not commits. `git merge {commit}` merges the commits of the branch."
    (repository / "b.txt").unlink()
    git(repository, "merge", "--quiet", commit)
    assert terminal("merge", "b", "--json").json["commits"] is None


@pytest.mark.slow
@pytest.mark.usefixtures("repository")
def test_merge_lists_files_outside_the_snapshot(terminal: Terminal) -> None:
    made = call(("run_command", {"command": f"truncate -s {(100 << 20) + 1} big.bin; echo c > c.txt"}))
    work(terminal, [READ, "Read.", made, "Done."], "--allow", "run_command", "--unsandboxed")
    branch(terminal)
    said = terminal("merge", "b").out.splitlines()
    assert "  written  c.txt" in said
    assert "  big.bin (too large) is not in the snapshot of the branch, and is not merged" in said
