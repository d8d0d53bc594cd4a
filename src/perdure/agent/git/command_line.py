"""Runs the git command line in a clean environment, and finds the user's repository.

No user setting reaches the commands: no `GIT_*` variable, no global or system configuration, no hook, no file system
monitor, no prompt, no network, no background work. The only things read from the user are where the repository keeps
its objects, index and exclude file, and which global exclude file is configured. Nothing of the user's is written here,
and no program that the repository names is run (`perdure.agent.git.programs`).
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from perdure.agent.commands.executables import executable
from perdure.agent.git import programs
from perdure.errors import ConfigError, Damaged, StoreError, StoreFull, StoreUnavailable
from perdure.runtime.start.git_links import find_git_folders, top_of

LIMIT = 600.0  # seconds that one git command may take

SAFE = ("safe.directory=*",)  # for commands that run nothing of the repository
NO_USER_CONFIG = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
CLEAN = {
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_AUTHOR_NAME": "Perdure",
    "GIT_AUTHOR_EMAIL": "perdure@localhost",
    "GIT_AUTHOR_DATE": "@0 +0000",  # the same files and message are the same commit, at any time
    "GIT_COMMITTER_NAME": "Perdure",
    "GIT_COMMITTER_EMAIL": "perdure@localhost",
    "GIT_COMMITTER_DATE": "@0 +0000",
    "LC_ALL": "C",
}
SETTINGS = (
    *programs.SETTINGS,
    *("core.hooksPath=/dev/null", "core.attributesFile=/dev/null", "core.fsync=all"),
)


class Repository(msgspec.Struct, frozen=True):
    """Where the user's git keeps what belongs to a folder; `prefix` is the folder below `top`, ending in `/`."""

    top: Path
    prefix: str
    git_dir: Path
    objects: Path
    index: Path
    exclude: Path
    object_format: str


def run(
    *arguments: str,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    answers: tuple[int, ...] = (0,),
    keep: int | None = None,
    settings: tuple[str, ...] = (),
    personal: bool = False,
) -> tuple[int, bytes]:
    """Run git and return its exit status, one of `answers`, and its output. Git inherits the descriptor `keep`."""
    process = start(
        *arguments, cwd=cwd, env=env, stdin=subprocess.PIPE, keep=keep, settings=settings, personal=personal
    )
    try:
        out, complaint = process.communicate(stdin, timeout=LIMIT)
    except BaseException as error:
        stop(process)
        if isinstance(error, subprocess.TimeoutExpired):
            raise StoreUnavailable(f"git {arguments[0]} did not finish within {LIMIT:g} s.") from None
        raise
    if process.returncode not in answers:
        raise failure(arguments[0], process.returncode, complaint)
    return process.returncode, out


def start(
    *arguments: str,
    cwd: Path,
    stdin: int,
    env: Mapping[str, str] | None = None,
    keep: int | None = None,
    settings: tuple[str, ...] = (),
    personal: bool = False,
) -> subprocess.Popen[bytes]:
    """Start git in a session of its own, so that signals from a terminal do not reach it."""
    clean = programs.environment(cwd) | (CLEAN if personal else CLEAN | NO_USER_CONFIG)
    options = [word for setting in (*SETTINGS, *settings) for word in ("-c", setting)]
    if (program := executable("git", cwd)) is None:
        raise ConfigError("git is not installed.", hint="Install git 2.38 or later.")
    try:
        return subprocess.Popen(
            [program, *options, *arguments],
            cwd=cwd,
            env=clean | dict(env or {}),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=() if keep is None else (keep,),
            start_new_session=True,
        )
    except FileNotFoundError:
        raise StoreUnavailable(f"{cwd} does not exist.") from None


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a git process and those it started, and wait until it is gone."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def failure(command: str, code: int, complaint: bytes) -> StoreError | ConfigError:
    """Git's error message as one of our errors."""
    text = complaint.decode(errors="replace").strip()
    error_line = next((line for line in text.splitlines() if re.match("fatal|error", line)), text.partition("\n")[0])
    if "No space left" in text or "quota exceeded" in text:
        return StoreFull("The disk is full; git could not write.")
    if re.search(r"(missing|invalid|bad|corrupt|unable to read|could not read|not a valid) .*(object|blob|tree)", text):
        return Damaged(f"An object is missing or damaged: {error_line[:200]}.")
    if code == 129:
        return ConfigError(f"This version of git does not support `git {command}`.", hint="Install git 2.38 or later.")
    return StoreError(f"git {command} failed: {error_line[:300]}.", code=code, complaint=text[:4000])


def find(folder: Path) -> Repository | None:
    """The repository whose work tree holds the folder, or None outside git.

    A repository that does not confirm that the work tree is its own does not count.
    """
    if (nearest := top_of(folder)) is None or find_git_folders(nearest) is None:
        return None
    names = ("--git-path", "objects", "--git-path", "index", "--git-path", "info/exclude", "--show-object-format")
    code, out = run(
        *("rev-parse", "--is-inside-work-tree", "--show-toplevel", "--absolute-git-dir", *names, "--show-prefix"),
        cwd=folder,
        answers=(0, 128),
        settings=SAFE,
    )
    if code:
        return None
    lines = out.decode("utf-8", "surrogateescape").split("\n")
    if len(lines) != 9:
        raise ConfigError(f"{folder} has a line break in its path.", hint="Work in a folder with an ordinary name.")
    top, git_dir, *paths = lines[1:6]
    if Path(top) != Path(os.path.realpath(nearest)):
        return None  # its settings name another folder as the work tree
    objects, index, exclude = (Path(os.path.normpath(folder / path)) for path in paths)
    return Repository(Path(top), lines[7], Path(git_dir), objects, index, exclude, lines[6])


def disable_programs(repository: Repository) -> dict[str, str]:
    """The environment that stops git from running programs named in the repository's settings."""
    env = {"GIT_DIR": str(repository.git_dir), "GIT_WORK_TREE": str(repository.top)}
    listed = run("config", "--list", "--name-only", "-z", cwd=repository.top, env=env)[1]
    keys = dict.fromkeys(os.fsdecode(listed).split("\0"))
    return programs.as_environment(programs.disable([key for key in keys if programs.names_program(key)]))


def global_excludes(folder: Path) -> str | None:
    """The exclude file in the user's configuration. Only this command reads that configuration; it runs nothing."""
    code, out = run(
        *("config", "--type=path", "-z", "--get", "core.excludesFile"),
        cwd=folder,
        personal=True,
        answers=(0, 1, 128),
    )
    return out.rstrip(b"\0").decode("utf-8", "surrogateescape") if code == 0 else None
