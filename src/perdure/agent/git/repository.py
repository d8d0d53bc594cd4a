"""Runs git in the folder of a session, and in no other repository (`perdure.runtime.start.git_links`).

Git outside the sandbox gets only the environment variables that it needs, reaches no network except for an approved
push, and runs no program that the repository names (`perdure.agent.git.programs`). A query is short and takes no lock;
`perdure.agent.git.lock` describes the lock of a command that changes the repository.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO

import msgspec

from perdure.agent.commands.executables import executable
from perdure.agent.commands.sandbox import command_line, environment, level_for
from perdure.agent.files.workspace import here
from perdure.agent.git import programs
from perdure.agent.tools.result import short
from perdure.errors import NotDone
from perdure.runtime.start.git_links import find_git_folders

QUERY_SECONDS = 60.0  # seconds
MAX_TEXT = 1 << 20

SETTINGS = (*programs.SETTINGS, "core.quotePath=false", "color.ui=false")
NO_HOOKS = ("core.hooksPath=/dev/null",)
REMOTE = frozenset({"push", "fetch", "ls-remote"})  # commands that reach a remote; only after a push was approved


class GitResult(msgspec.Struct, frozen=True):
    """The output of git. `code` is negative where git had to be killed."""

    code: int
    text: bytes
    error: str
    truncated: bool = False

    @property
    def line(self) -> str:
        return self.text.decode(errors="replace").strip()

    @property
    def message(self) -> str:
        """All output, for a person or a model; the end of it holds the reason."""
        return "\n".join(part for part in (self.line, self.error.strip()) if part)[-4000:]


def query_files(*arguments: str, limit: int = MAX_TEXT) -> GitResult:
    """Run a git command that compares files with what is recorded; it may run filters, so it runs in the sandbox."""
    with TemporaryDirectory() as temporary:
        return query(*arguments, limit=limit, sandbox=GitSandbox(Path(temporary)))


def query(
    *arguments: str,
    check: bool = True,
    limit: int = MAX_TEXT,
    seconds: float = QUERY_SECONDS,
    sandbox: GitSandbox | None = None,
) -> GitResult:
    """Run a git command that changes nothing; returns at most `limit` bytes of its output."""
    with (
        TemporaryFile() as error,
        start_git(arguments, subprocess.DEVNULL, subprocess.PIPE, error, sandbox=sandbox) as git,
    ):
        assert git.stdout is not None
        timer = threading.Timer(seconds, stop_git, [git])
        timer.start()
        try:
            text = git.stdout.read(limit + 1)
            if len(text) > limit:
                stop_git(git)
            code = git.wait()
        finally:
            timer.cancel()
        done = GitResult(code, text[:limit], text_of(error), truncated=len(text) > limit)
    if check and done.code and not done.truncated:
        raise NotDone(f"git {arguments[0]}: {short(done.message or f'exit code {done.code}', 600)}")
    return done


def start_git(
    arguments: Sequence[str], given: IO[bytes] | int, text: IO[bytes] | int, error: IO[bytes], *,
    lock: int | None = None, settings: Sequence[str] = (), sandbox: GitSandbox | None = None,
    variables: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:  # fmt: skip
    """Start git in the folder, in a process group of its own; with a `sandbox`, inside it.

    `variables` override its environment.
    """
    is_query = lock is None and arguments[0] != "rev-parse"  # `rev-parse` is asked where the hooks are
    chosen = (*SETTINGS, *(NO_HOOKS if is_query else ()), *settings)
    command = [git_program(), *(part for one in chosen for part in ("-c", one)), *arguments]
    variables = _environment(arguments[0], lock is None) | dict(variables or {})
    if sandbox is not None:
        command = sandbox.line(command)
        ours = {name: value for name, value in variables.items() if name.startswith("GIT_")}
        variables = sandbox.environment() | ours
    try:
        return subprocess.Popen(
            command, cwd=here().root, stdin=given, stdout=text, stderr=error, env=variables, start_new_session=True,
            pass_fds=() if lock is None else (lock,),
        )  # fmt: skip
    except (OSError, ValueError) as failure:
        why = getattr(failure, "strerror", None) or str(failure)
        raise NotDone(f"Git cannot be started: {why}.") from None


class GitSandbox:
    """The sandbox for a query about files: filters may run, and nested repositories are read with their settings."""

    def __init__(self, temporary: Path) -> None:
        self._level = level_for(here())
        self._temporary = temporary
        self._folders = git_folders()

    def line(self, command: list[str]) -> list[str]:
        return command_line(
            here(), command, level=self._level, temporary=self._temporary, read_only=True, shown=self._folders,
            granted=lfs_folders(self._folders[1]),
        )  # fmt: skip

    def environment(self) -> dict[str, str]:
        return environment(here(), self._level, self._temporary) | {"LC_ALL": "C.UTF-8", "LANGUAGE": ""}


def lfs_folders(common: Path) -> tuple[Path, ...]:
    """Where Git LFS keeps its objects, which filters and hooks may write; a link to elsewhere does not count."""
    lfs = common / "lfs"
    return (lfs,) if lfs.is_dir() and not lfs.is_symlink() else ()


def git_program() -> str:
    """The path of git, never one inside the folder: what lies there may be anything."""
    if (found := executable("git", here().root)) is None:
        raise NotDone("git is not installed.")
    return found


def git_folders(*names: str) -> tuple[Path, ...]:
    """Git's folder for this working tree, the one that all working trees of the repository share, and more by name."""
    wanted = [word for name in names for word in ("--git-path", name)]
    lines = query("rev-parse", "--absolute-git-dir", "--git-common-dir", *wanted).line.splitlines()
    return tuple(Path(here().root, line).resolve() for line in lines)


def _environment(command: str, is_query: bool) -> dict[str, str]:
    """The variables that git needs, without any that redirect it, make it prompt, or change its output."""
    remote = command in REMOTE
    return programs.environment(here().root, personal=remote or command == "commit", network=remote) | {
        "GIT_CEILING_DIRECTORIES": str(here().root.parent),
        "GIT_OPTIONAL_LOCKS": "0" if is_query else "1",
        "LC_ALL": "C.UTF-8",
        "LANGUAGE": "",
    }


def stop_git(git: subprocess.Popen[bytes]) -> None:
    """End git and its process group; the first signal lets git remove its lock files."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(git.pid, how)
        with suppress(subprocess.TimeoutExpired):
            git.wait(2.0)


def text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(MAX_TEXT).decode(errors="replace")


def is_repository() -> bool:
    """Whether the folder of the session is the top of a repository's working tree, and the repository confirms it."""
    if find_git_folders(here().root) is None:
        return False
    try:
        return query("rev-parse", "--show-toplevel", check=False).text == os.fsencode(here().root) + b"\n"
    except NotDone:
        return False


def require_repository() -> None:
    if is_repository():
        return
    if os.path.lexists(here().root / ".git") and find_git_folders(here().root) is None:
        raise NotDone(
            "The .git of this folder names a repository that does not name this folder, so git is not run here.",
            hint="A worktree can be repaired with `git worktree repair` in its repository.",
        )
    raise NotDone("The folder of this session is not a git repository.")


def current_branch() -> str:
    """The branch that is checked out; empty if none is."""
    return query("symbolic-ref", "--quiet", "--short", "HEAD", check=False).line


def commit_of(name: str) -> str | None:
    """The commit that a ref points to, or None."""
    return query("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", check=False).line or None
