"""Queries about the repository, and branches. Commits and pushes have modules of their own.

A new branch leaves every file as it is. Git first creates the branch and then checks it out; a crash in between leaves
the branch at the current commit, and the next attempt only checks it out.
"""

from __future__ import annotations

from typing import Any

from perdure.agent.files.safe_files import label, real_path
from perdure.agent.git.lock import repository_lock, write_lock
from perdure.agent.git.repository import commit_of, current_branch, query, query_files, require_repository
from perdure.agent.git.sandboxed_git import run_git
from perdure.agent.tools.commit import git_commit
from perdure.agent.tools.hidden_arguments import HIDDEN, PREPARE, ReadDigests, prepares
from perdure.agent.tools.push import git_push
from perdure.agent.tools.result import ToolResult, short, text_result
from perdure.errors import NotDone
from perdure.runtime.definitions.tool import Call, Outcome, tool

__all__ = ["HIDDEN", "PREPARE", "git_branch", "git_commit", "git_diff", "git_log", "git_push", "git_status"]


@tool(replay="pure", retry=1, reach="workspace")
def git_status() -> ToolResult:
    """Show the branch, and which files are changed, staged or untracked."""
    require_repository()
    done = query_files("status", "--short", "--branch", "--untracked-files=all", "--ignore-submodules=dirty")
    return text_result(done.text.decode(errors="replace").rstrip(), origin="command:git status")


@tool(replay="pure", retry=1, reach="workspace")
def git_diff(path: str | None = None) -> ToolResult:
    """Show the differences from the last commit, in the whole folder or one file or folder; new files are left out."""
    require_repository()
    where = [] if path is None else ["--", label(real_path(path))]
    last = commit_of("HEAD") or query("hash-object", "--no-filters", "-t", "tree", "/dev/null").line
    done = query_files("--literal-pathspecs", "diff", "--no-ext-diff", "--no-textconv", last, *where, limit=4 << 20)
    return text_result(done.text.decode(errors="replace") or "Nothing differs.", origin="command:git diff")


@tool(replay="pure", retry=1, reach="workspace")
def git_log(limit: int = 20) -> ToolResult:
    """Show the last commits of the branch, the newest first: short name, day, author, subject."""
    require_repository()
    if commit_of("HEAD") is None:
        return ToolResult("There are no commits yet.", origin="command:git log")
    many = str(max(1, min(limit, 200)))
    done = query("log", "-n", many, "--format=%h %ad %an: %s", "--date=short")
    return text_result(done.text.decode(errors="replace").rstrip(), origin="command:git log")


@tool(replay="probe", inflight="1s", retry=5, targets=("branch:{name}",), reach="workspace")
def git_branch(call: Call, name: str, leaving: str, before: str | None) -> ToolResult:
    """Create a new branch at the current commit and check it out. Returns the current branch."""
    call.reference(f"refs/heads/{name}")
    with write_lock("index.lock", "HEAD.lock", f"refs/heads/{name}.lock") as lock:
        if (current := current_branch()) == name:
            return _branch_result(name)
        there = commit_of(f"refs/heads/{name}")
        if current != leaving:
            raise NotDone(f"Another branch is checked out now: {short(current or 'none')}.")
        if there not in (None, before):
            raise NotDone(f"Branch {short(name)} exists already.")
        done = run_git(lock, "switch", "--quiet", "--no-guess", *(["--create"] if there is None else []), name)
        if current_branch() == name:
            return _branch_result(name)
        if commit_of(f"refs/heads/{name}") is None:
            raise NotDone(f"git switch: {short(done.message, 600)}")
        raise RuntimeError(f"the branch was created but not checked out: {done.message}")


@git_branch.probe
def _(call: Call, name: str, leaving: str, before: str | None) -> Outcome:  # noqa: ARG001
    try:
        with repository_lock():
            current, there = current_branch(), commit_of(f"refs/heads/{name}")
    except NotDone as error:
        return Outcome.unknown(error.message)
    if current == name:
        return Outcome.happened(_branch_result(name), reference=f"refs/heads/{name}")
    if there is None or (there == before and current == leaving):
        return Outcome.absent()
    return Outcome.unknown(f"Branch {name} exists, and {current or 'no branch'} is checked out.")


@prepares(git_branch, "leaving", "before")
def prepare_branch(_: ReadDigests, *, name: str) -> dict[str, Any]:
    """The current state of the repository; a branch that exists, or a name that git refuses, is rejected."""
    require_repository()
    bad = name.startswith("-") or name == "HEAD" or "\0" in name
    if bad or query("check-ref-format", f"refs/heads/{name}", check=False).code:
        raise NotDone(f"{short(name)} is not a valid branch name.")
    if commit_of(f"refs/heads/{name}") is not None or current_branch() == name:
        raise NotDone(f"Branch {short(name)} exists already.")
    return {"leaving": current_branch(), "before": commit_of("HEAD")}


def _branch_result(name: str) -> ToolResult:
    return ToolResult(f"The branch is now {short(name)}.")
