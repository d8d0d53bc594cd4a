"""The sandbox: what a command that an agent runs can touch. The strongest level that works here is used, or none.

A level counts only after it was tried for real. Where none works, a command is refused, unless the workspace allows it
to run without one; the level of every attempt is recorded in the ledger.

At every level, a command gets no secrets through its environment, cannot gain privileges, and is limited by its runner
in time, processes, disk space and output.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from pathlib import Path

from perdure.agent.commands import bubblewrap, landlock, seccomp
from perdure.agent.commands.bubblewrap import SandboxFolders
from perdure.agent.commands.executables import own_code
from perdure.agent.files.workspace import Workspace
from perdure.config import FILE
from perdure.errors import NotDone
from perdure.secrets.redaction import found_in

ADDED = "PERDURE_ENVIRONMENT"  # more names that commands may see, separated by commas
_ALLOWED = frozenset(
    [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "LANGUAGE",
        "TZ",
        "CI",
        "SOURCE_DATE_EPOCH",
        "MANPATH",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
        "CONDA_DEFAULT_ENV",
        "PYENV_ROOT",
        "PYENV_VERSION",
        "PYTHONPATH",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONUNBUFFERED",
        "PYTHONHASHSEED",
        "PYTHONUTF8",
        "PYTHONIOENCODING",
        "PYTHONWARNINGS",
        "NVM_DIR",
        "NODE_ENV",
        "NODE_PATH",
        "NODE_OPTIONS",
        "GOPATH",
        "GOROOT",
        "GOCACHE",
        "GOMODCACHE",
        "GOFLAGS",
        "CARGO_HOME",
        "RUSTUP_HOME",
        "RUSTFLAGS",
        "JAVA_HOME",
        "M2_HOME",
        "MAVEN_HOME",
        "GRADLE_USER_HOME",
        "DOTNET_ROOT",
        "GEM_HOME",
        "CC",
        "CXX",
        "CPP",
        "CFLAGS",
        "CXXFLAGS",
        "CPPFLAGS",
        "LDFLAGS",
        "MAKEFLAGS",
        "PKG_CONFIG_PATH",
        "LD_LIBRARY_PATH",
        "LIBRARY_PATH",
        "CPATH",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "NODE_EXTRA_CA_CERTS",
        "PIP_INDEX_URL",
        "PIP_EXTRA_INDEX_URL",
        "PIP_TRUSTED_HOST",
        "UV_INDEX_URL",
        "NPM_CONFIG_REGISTRY",
    ]
)
_KERNEL_FILES = frozenset(
    ["proc", "sysfs", "cgroup", "cgroup2", "devpts", "debugfs", "tracefs", "securityfs", "configfs", "bpf", "efivarfs"]
)
_OCTAL = re.compile(r"\\([0-7]{3})")  # how mountinfo writes spaces and the like
_PASSWORD = re.compile(r"://[^/@\s]*@")
_QUIET = {"PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "TERM": "dumb"}
_ONLY_REPOSITORIES = {  # a folder with files like those of a repository is not one: an agent can write its settings
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.bareRepository",
    "GIT_CONFIG_VALUE_0": "explicit",
}


class Level(StrEnum):
    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"
    NONE = "none"


def available(*folders: Path) -> Level:
    """The strongest level that works here, without programs from these folders."""
    if bubblewrap.find(*folders) is not None:
        return Level.BUBBLEWRAP
    return Level.LANDLOCK if landlock_works() else Level.NONE


@cache
def landlock_works() -> bool:
    if landlock.abi() < landlock.ABI:
        return False
    trial = [*_landlock_line(network=False, granted=[]), "--", "/bin/sh", "-c", "exit 42"]
    try:
        tried = subprocess.run(trial, check=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return False
    return tried.returncode == 42


def drops_root(root: Path) -> bool:
    """Whether the commands of root run as another user in this folder, and not as root without capabilities."""
    found = bubblewrap.find(root)
    return found is not None and found.can_drop_root(root)


def level_for(workspace: Workspace) -> Level:
    """The level for a command in this workspace; raises `NotDone` where there is none and one is required."""
    level = available(workspace.root)
    if level is Level.NONE and not workspace.unsandboxed:
        raise NotDone(
            "No sandbox is available here, so the command was not run.",
            hint="Install bubblewrap, or allow commands without a sandbox for this agent.",
        )
    return level


def command_line(
    workspace: Workspace,
    argv: list[str],
    *,
    level: Level,
    temporary: Path,
    hidden: tuple[Path, ...] = (),
    read_only: bool = False,
    shown: tuple[Path, ...] = (),
    granted: tuple[Path, ...] = (),
) -> list[str]:
    """The command line that runs `argv` at this level. `argv` names its program by an absolute path.

    `temporary` is for temporary files where `/tmp` cannot be private; with `read_only`, the folder is not writable
    either, and there is no network. `hidden` is protected like what the workspace itself protects. `shown` can be read
    wherever it lies, and `granted` can be written.
    """
    if level is Level.NONE:
        return argv
    _refuse_kernel_files(workspace.root)
    protected = _protected(workspace, hidden, read_only=read_only)
    if level is Level.BUBBLEWRAP:
        found = bubblewrap.find(workspace.root)
        assert found is not None
        folders = SandboxFolders(hidden=protected, shown=shown, granted=granted, read_only=read_only)
        return found.command_line(workspace, argv, folders)
    kept = (*protected, workspace.root / ".git", workspace.root / FILE, *own_code(workspace.root))
    may = [temporary, *granted, *(() if read_only else _grants(workspace.root, kept))]
    return [*_landlock_line(network=workspace.network and not read_only, granted=may), "--", *argv]


def _refuse_kernel_files(root: Path) -> None:
    """Refuse a folder in which the kernel's own file systems are mounted: a command could write its settings there."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
        for line in mounts:
            where, kind = line.split(" ", 5)[4], line.partition(" - ")[2].split(" ", 1)[0]
            if kind in _KERNEL_FILES:
                path = Path(_OCTAL.sub(lambda found: chr(int(found[1], 8)), where))
                if path == root or root in path.parents:
                    raise NotDone(f"{path} is a mount of {kind}, which no command may write. Unmount it first.")


def environment(workspace: Workspace, level: Level, temporary: Path) -> dict[str, str]:
    """The environment of a command: variables that are known to be harmless, and those that the user adds.

    An address with a password, or a known secret, is left out whatever its name, and nothing prompts or pages. Where
    nothing keeps a command in the folder, git takes only what `git init` and `git clone` make for a repository.
    """
    added = {name.strip() for name in os.environ.get(ADDED, "").split(",")} | set(workspace.environment)
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in added or ((name in _ALLOWED or name.startswith("LC_")) and not _is_secret(value))
    }
    own = {} if level is Level.BUBBLEWRAP else {"TMPDIR": str(temporary)}
    apart = level is not Level.NONE and not workspace.network
    return kept | _QUIET | own | ({} if apart else _ONLY_REPOSITORIES)


def _is_secret(value: str) -> bool:
    return _PASSWORD.search(value) is not None or found_in(value) is not None


def _protected(workspace: Workspace, hidden: tuple[Path, ...], *, read_only: bool) -> tuple[Path, ...]:
    """What must stay out of reach. A name that does not exist yet cannot be protected, so it is refused."""
    root = workspace.root
    if (root / ".git").is_symlink():
        raise NotDone("The .git of this folder is a symbolic link, which cannot be protected.")
    found = dict.fromkeys((*workspace.protected, *(path.resolve() for path in hidden)))
    for path in found:
        if path == root:
            raise NotDone("The folder of this session is itself protected.")
        if root in path.parents and not path.exists() and not read_only:
            raise NotDone(f"{path.relative_to(root)} is protected and does not exist: a command could create it.")
    return tuple(found)


def _grants(folder: Path, kept: tuple[Path, ...]) -> Iterator[Path]:
    """What may be written so that nothing in `kept` can be: a whole folder, or its other entries one by one."""
    if not any(folder == path or folder in path.parents for path in kept if os.path.lexists(path)):
        yield folder
        return
    for entry in sorted(folder.iterdir()):
        if entry.is_symlink() or entry in kept:
            continue
        if entry.is_dir():
            yield from _grants(entry, kept)
        else:
            yield entry


def _landlock_line(*, network: bool, granted: list[Path]) -> list[str]:
    line = [sys.executable, "-I", "-S", landlock.__file__]
    line += ["--filter", seccomp.program(sockets=network).hex(), *(["--network"] if network else [])]
    for path in granted:
        line += ["--write", str(path)]
    return line
