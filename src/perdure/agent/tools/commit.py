"""Commits. Each carries the key of its effect as a trailer, and the probe searches for that trailer.

Git moves the branch in one step, so a commit exists or it does not. It counts wherever it is found: on a branch, or in
a reflog after the branch was moved back. A hook may rewrite messages; a new commit with our subject and without our
trailer needs a decision by a person.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from perdure.agent.files.safe_files import real_path
from perdure.agent.files.workspace import here
from perdure.agent.git.lock import repository_lock, write_lock
from perdure.agent.git.programs import names_program
from perdure.agent.git.repository import GitResult, commit_of, current_branch, query, query_files, require_repository
from perdure.agent.git.sandboxed_git import run_git
from perdure.agent.tools.hidden_arguments import ReadDigests, prepares
from perdure.agent.tools.result import ToolResult, plain, short, text_result
from perdure.errors import NotDone
from perdure.runtime.definitions.tool import Call, Outcome, tool
from perdure.runtime.start.git_links import find_git_folders

TRAILER = "Perdure-Effect"
MESSAGE = 20_000
LOOKALIKES = 200
DIFFER = ("--cached", "--quiet", "--no-ext-diff", "--no-textconv")


@tool(replay="probe", inflight="1s", retry=5, targets=("branch:{branch}",), reach="workspace")
def git_commit(call: Call, message: str, branch: str, before: str | None, paths: list[str] | None = None) -> ToolResult:
    """Commit the files in `paths`, or everything that changed, to the current branch. Shows what was committed."""
    with write_lock("index.lock", "HEAD.lock", f"refs/heads/{branch}.lock") as lock:
        if (found := _find(call.key, before)) is not None:
            return _found_result(call, found)
        if (current := current_branch()) != branch:
            raise NotDone(f"Another branch is checked out now: {short(current or 'none')}.")
        specs = _specs(paths)  # only once, because staging changes the result
        staged = run_git(lock, "add", "--all", "--", *specs)
        if staged.code:
            raise NotDone(f"git add: {short(staged.message, 600)}")
        if not query("diff", *DIFFER, "--", *specs, check=False).code:
            raise NotDone("There is nothing to commit.")
        only = [] if paths is None else ["--only", "--", *specs]
        text = _add_trailer(message, call.key).encode()
        done = run_git(lock, "commit", "--cleanup=whitespace", "--file=-", *only, given=text, settings=_identity())
        found = _find(call.key, before)  # git has ended, and may have failed after it made the commit
    if found is not None:
        return _found_result(call, found)
    call.reference(f"exit {done.code}")
    return _failure_result(done)


@git_commit.probe
def _(call: Call, message: str, branch: str, before: str | None, paths: list[str] | None = None) -> Outcome:  # noqa: ARG001
    try:
        with repository_lock():
            found = _find(call.key, before)
            alike = None if found is not None else _lookalike(message, branch, before)
    except NotDone as error:
        return Outcome.unknown(error.message)
    if found is not None:
        return Outcome.happened(_commit_result(found), reference=found)
    if alike is not None:
        return Outcome.unknown(f"Commit {alike[:12]} has this subject, but not the trailer of this effect.")
    return Outcome.absent()


@prepares(git_commit, "branch", "before")
def prepare_commit(_: ReadDigests, *, message: str, paths: list[str] | None) -> dict[str, Any]:
    """The current state of the repository; without a message, a branch or a change there is nothing to plan."""
    require_repository()
    if not message.strip() or len(message) > MESSAGE or "\0" in message:
        raise NotDone(f"A commit needs a message of up to {MESSAGE} characters.")
    if not (branch := current_branch()):
        raise NotDone("No branch is checked out; create one first.")
    if paths is not None and not paths:
        raise NotDone("`paths` is empty; list what to commit, or omit it to commit everything.")
    status = query_files("status", "--porcelain", "--untracked-files=normal", "--", *_specs(paths), limit=1000)
    if not status.text:
        raise NotDone("There is nothing to commit.")
    return {"branch": branch, "before": commit_of("HEAD")}


def _specs(paths: list[str] | None) -> list[str]:
    """Literal path specifications for git, without what is protected."""
    root = here().root
    guarded = [one.relative_to(root).as_posix() for one in here().protected if root in one.parents]
    without = [f":(top,exclude,literal){one}" for one in (*guarded, *_embedded())]
    if paths is None:
        return [".", *without]
    return [f":(top,literal){_from_top(path)}" for path in paths] + without


def _embedded(folder: Path | None = None) -> Iterator[str]:
    """Committed repositories that git must not enter: an agent can write their `.git`, or it names programs."""
    folder = folder or here().root
    listed = query("-C", str(folder), "ls-files", "--stage", "-z", limit=64 << 20).text.split(b"\0")
    for link in (os.fsdecode(entry.partition(b"\t")[2]) for entry in listed if entry.startswith(b"160000 ")):
        if os.path.lexists(folder / link / ".git") and not _is_submodule(folder / link):
            yield link


def _is_submodule(nested: Path) -> bool:
    """Whether its git folder lies in the repository's own and names no program, recursively."""
    found = find_git_folders(nested)
    if found is None or found.own.is_relative_to(nested):
        return False
    listed = query("-C", str(nested), "config", "--list", "--local", "--includes", "--name-only", "-z", check=False)
    keys = os.fsdecode(listed.text).split("\0")
    if listed.code or "extensions.worktreeconfig" in keys or any(map(names_program, keys)):
        return False
    return not any(_embedded(nested))


def _from_top(path: str) -> str:
    """A path relative to the top. A link is committed as a link, so only the folder that holds it has to be inside."""
    full = os.path.normpath(here().root / path.replace("\0", ""))
    if full == str(here().root):
        return ""
    above, name = os.path.split(full)
    if "\0" in path or name == ".git":
        raise NotDone(f"{short(path)} cannot be committed.")
    return (real_path(above) / name).relative_to(here().root).as_posix()


def _add_trailer(message: str, key: str) -> str:
    """The message with our trailer, in the last paragraph if that consists of trailers."""
    body = message.strip()
    last = body.split("\n\n")[-1].split("\n") if "\n\n" in body else []
    joined = bool(last) and all(re.match(r"[A-Za-z0-9-]+: \S", line) for line in last)
    return f"{body}{'' if joined else chr(10)}\n{TRAILER}: {key}\n"


def _find(key: str, before: str | None) -> str | None:
    """The commit of this effect, on any branch or in a reflog."""
    since = [] if before is None else [f"^{before}"]
    mark = f"{TRAILER}: {key}"
    return query("rev-list", "-n", "1", "-F", f"--grep={mark}", "--branches", "--reflog", *since).line or None


def _lookalike(message: str, branch: str, before: str | None) -> str | None:
    """A new commit on the branch that has our subject."""
    if commit_of(f"refs/heads/{branch}") is None:
        return None
    subject = " ".join(message.strip().split("\n\n")[0].split())
    since = [] if before is None else [f"^{before}"]
    many = str(LOOKALIKES)
    lines = query("log", "-n", many, "--format=%H %s", f"refs/heads/{branch}", *since).line.splitlines()
    return next((sha for sha, _, found in (line.partition(" ") for line in lines) if found == subject), None)


def _identity() -> list[str]:
    """Fallbacks for the user's name and address, where they are not set."""
    wanted = {"user.name": "Perdure agent", "user.email": "agent@perdure.invalid"}
    return [f"{name}={value}" for name, value in wanted.items() if not query("config", name, check=False).line]


def _found_result(call: Call, commit: str) -> ToolResult:
    call.reference(commit)
    return _commit_result(commit)


def _commit_result(commit: str) -> ToolResult:
    done = query("show", "--stat=100", "--no-ext-diff", "--no-textconv", "--format=%h %s", commit, limit=8_000)
    return text_result(f"Committed {done.line}", changed=True)


def _failure_result(done: GitResult) -> ToolResult:
    """Git or a hook refused the commit: a final answer, because trying again would not change it."""
    why = f"exited with {done.code}" if done.code >= 0 else "took too long and was stopped"
    return ToolResult(f"Nothing was committed; git commit {why}.\n{plain(done.message)}", failed=True, changed=True)
