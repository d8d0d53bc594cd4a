"""Pushes: one commit to one branch of one remote, never by force.

    plan       read locally where the remote was when it was last seen; before the approval nothing reaches the remote
    look       check that the remote is there, or at an older commit of ours
    rehearse   a dry run, which also runs the hook: if it fails, nothing was sent
    push       the same, for real

The probe asks the remote. It is at our commit, or at one that contains it: the push happened. It is where it was when
the push was planned, or at an older commit of ours: it did not. A remote may still be working after the connection is
lost, so `inflight` is not short.

Only one push to a branch of an address at a time: it holds a lease, which is kept while a push is in doubt. So sessions
that share a remote never push over each other; the second one checks again, and finds that the branch has moved.
"""

from __future__ import annotations

import re
from typing import Any

from perdure.agent.files.workspace import Workspace, here
from perdure.agent.git.lock import repository_lock, write_lock
from perdure.agent.git.repository import GitResult, commit_of, current_branch, query, require_repository
from perdure.agent.git.sandboxed_git import check_programs, run_git
from perdure.agent.tools.hidden_arguments import ReadDigests, prepares
from perdure.agent.tools.result import ToolResult, plain, short
from perdure.config import without_password
from perdure.errors import NotDone
from perdure.ids import digest
from perdure.runtime.definitions.tool import Call, Outcome, tool

_REJECTED = re.compile(rb"^!\t[^\t]*\t\[(?:remote )?rejected\]", re.MULTILINE)
COMMITS = 20  # commits that a person is shown
PUSH = ("push", "--porcelain", "--no-follow-tags", "--recurse-submodules=no")


@tool(
    replay="probe",
    inflight="30s",
    targets=("branch:{branch}", "remote:{remote}"),
    leases=("push:{shared}",),
    reach="outside",
)
def git_push(
    call: Call,
    commit: str,
    remote_before: str | None,
    shared: str,
    remote: str = "origin",
    branch: str | None = None,
    address: str | None = None,  # noqa: ARG001 - for people who are asked; `shared` is what is compared
) -> ToolResult:
    """Push a branch, by default the current one, to a remote; never by force. Returns the remote's new commit."""
    assert branch is not None
    if _lease_name(remote, branch) != shared:
        raise NotDone(f"{short(remote)} has another address now.")
    what = f"{commit}:refs/heads/{branch}"
    call.reference(_reference(remote, branch, commit))
    with write_lock() as lock:
        there = _tip(remote, branch)
        if there == commit:
            return _push_result(remote, branch, commit)
        if there != remote_before and not _is_older(there, commit):
            raise NotDone(f"{short(branch)} on {short(remote)} has moved meanwhile; fetch it and compare.")
        rehearsed = run_git(lock, *PUSH, "--dry-run", remote, what)
        if rehearsed.code:
            raise _failure(rehearsed)
        done = run_git(lock, *PUSH, "--no-verify", remote, what)
    if done.code == 0:
        return _push_result(remote, branch, commit)
    if _REJECTED.search(done.text):
        raise _failure(done)
    raise RuntimeError(f"git push exited with {done.code}: {done.message}")


@git_push.probe
def _(
    call: Call,  # noqa: ARG001
    commit: str,
    remote_before: str | None,
    shared: str,
    remote: str = "origin",
    branch: str | None = None,
    address: str | None = None,  # noqa: ARG001
) -> Outcome:
    assert branch is not None
    try:
        with repository_lock():
            if _lease_name(remote, branch) != shared:
                return Outcome.unknown(f"{remote} has another address now.")
            there = _tip(remote, branch)
            moved = there not in (None, commit, remote_before) and not _is_older(there, commit)
            held = there == commit or (moved and _contains(remote, branch, commit, there))
    except NotDone as error:
        return Outcome.unknown(error.message)
    if held:
        return Outcome.happened(_push_result(remote, branch, commit), reference=_reference(remote, branch, commit))
    if there == remote_before or (there is not None and not moved):
        return Outcome.absent()
    return Outcome.unknown(
        f"{branch} on {remote} was moved to {(there or 'nothing')[:12]}, which does not contain our commit."
    )


@prepares(git_push, "commit", "remote_before", "shared", "address")
def prepare_push(_: ReadDigests, *, remote: str, branch: str | None) -> dict[str, Any]:
    """The commit, its target, and where the remote was when it was last seen from here. The remote is not contacted."""
    require_repository()
    name = branch or current_branch()
    if not name:
        raise NotDone("No branch is checked out; name one.")
    if "\0" in name or (commit := commit_of(f"refs/heads/{name}")) is None:
        raise NotDone(f"Branch {short(name)} does not exist here.")
    shared = _lease_name(remote, name)
    before = commit_of(f"refs/remotes/{remote}/{name}")
    if before == commit:
        raise NotDone(f"{short(name)} on {short(remote)} is at {commit[:12]} already, as far as is known here.")
    return {
        "remote": remote, "branch": name, "commit": commit, "remote_before": before, "shared": shared,
        "address": _public(_url(remote)),
    }  # fmt: skip


def push_details(_: Workspace, given: dict[str, Any]) -> dict[str, Any]:
    """The subject lines of the commits that the remote does not have, as far as is known here; the newest first."""
    before = given.get("remote_before")
    known = (f"^{before}",) if before else ("--not", f"--remotes={given['remote']}")
    listed = query("rev-list", "--format=%h %s", f"--max-count={COMMITS}", given["commit"], *known, "--")
    count = query("rev-list", "--count", given["commit"], *known, "--").line
    return {"commits": [short(plain(one)) for one in listed.line.splitlines()[1::2]], "count": int(count)}


def _url(remote: str) -> str:
    """The address of a push. Only a remote that the user has set up; the model cannot give an address of its own."""
    if remote not in query("remote").line.splitlines():
        raise NotDone(f"Remote {short(remote)} does not exist here.")
    urls = query("remote", "get-url", "--push", "--all", remote).line.splitlines()
    if len(urls) != 1:
        raise NotDone(f"{short(remote)} has {len(urls)} push addresses; a push to several cannot be done exactly once.")
    check_programs()
    if _is_in_folder(urls[0]):
        raise NotDone(
            f"{short(remote)} is a repository in the folder of this session, so an agent can write its hooks."
        )
    return urls[0]


def _public(url: str) -> str:
    """An address without what may be secret in it: the login, but for the user of `ssh`, and what follows a `?`."""
    url = url.encode(errors="surrogateescape").decode(errors="replace")
    if "://" not in url:
        return url  # a path, or `user@host:path`, which holds no password
    scheme, _, rest = without_password(url, mask="").partition("?")[0].partition("://")
    return f"{scheme}://{rest if 'ssh' in scheme else rest.rpartition('@')[2]}"


def _is_in_folder(url: str) -> bool:
    """Whether an address is a folder inside ours; with a colon before the first slash it is on another machine."""
    path = url.removeprefix("file://")
    if path == url and ":" in url.split("/", 1)[0]:
        return False
    return here().root in (found := (here().root / path).resolve()).parents or found == here().root


def _lease_name(remote: str, branch: str) -> str:
    """The name of the lease: the same for all sessions that push there, whatever they call the remote."""
    words = re.sub("[^A-Za-z0-9._/-]+", "-", branch)[:60]
    return f"{words}:{digest(f'{_url(remote)} {branch}'.encode(errors='surrogateescape'))[:16]}"


def _tip(remote: str, branch: str) -> str | None:
    """The commit of a branch on the remote, as the remote reports it."""
    name = f"refs/heads/{branch}"
    lines = query("ls-remote", "--", _url(remote), name).line.splitlines()
    found = [commit for commit, _, ref in (line.partition("\t") for line in lines) if ref == name]
    return found[0] if found else None


def _is_older(there: str | None, commit: str) -> bool:
    """Whether the remote is at an ancestor of our commit: it was last seen some time ago, or never."""
    return there is not None and query("merge-base", "--is-ancestor", there, commit, check=False).code == 0


def _contains(remote: str, branch: str, commit: str, there: str | None) -> bool:
    """Whether the remote's commit has ours in its history; it is fetched, and no ref is moved."""
    if there is None:
        return False
    if commit_of(there) is None:
        where = (_url(remote), f"refs/heads/{branch}")
        query("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--recurse-submodules=no", "--", *where)
    return query("merge-base", "--is-ancestor", commit, there, check=False).code == 0


def _reference(remote: str, branch: str, commit: str) -> str:
    """The ref at the remote and its commit, as `git ls-remote` prints them."""
    return f"{remote} refs/heads/{branch} {commit}"


def _push_result(remote: str, branch: str, commit: str) -> ToolResult:
    return ToolResult(f"{short(branch)} on {short(remote)} is now at {commit[:12]}.")


def _failure(done: GitResult) -> NotDone:
    return NotDone(f"Nothing was pushed: {plain(done.message)}", hint="Fetch, compare, and push again.")
