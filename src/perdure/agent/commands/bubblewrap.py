"""Bubblewrap: separate namespaces. The folder is writable; everything else is read-only or not visible at all.

    /            as it is, read-only
    /tmp /dev/shm /run   empty and private; sockets of services, such as Docker's, are out of reach
    home folders  empty and private, except for what tools need (`home_folders.py`), read-only
    /proc        its own processes; the kernel's settings are read-only, for root too
    user         for root: user 65534, if the folder can be mounted so that this user owns root's files (`launcher.py`)
    modes        no file can be made set-user-ID (`seccomp.py`)
    processes    a separate space: no process outside can be seen or signalled, and all of them end with the command
    network      none but its own loopback, unless the workspace allows it
    the folder   writable, except `.git` and `perdure.toml` (read-only) and what is protected (hidden)

All of `.git` is read-only: a hook, a setting, a `commondir` or a rebase plan in it is code that git would run outside
the sandbox later. `git status` and `git log` can read it; commits are made by the git tools.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import msgspec

from perdure.agent.commands import launcher, seccomp
from perdure.agent.commands.executables import executable, own_code
from perdure.agent.commands.home_folders import EMPTY, homes, readable
from perdure.agent.commands.launcher import NEEDED, USER
from perdure.agent.files.workspace import Workspace
from perdure.config import FILE
from perdure.errors import NotDone

TEMPORARY = 1 << 30
_READ_ONLY = tuple(f"/proc/{name}" for name in ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi", "asound"))
_ALONE = ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
_BOUND = ("--new-session", "--die-with-parent", "--cap-drop", "ALL")


def find(*folders: Path) -> Bubblewrap | None:
    """Bubblewrap as it works here, and not one that lies in these folders."""
    program = executable("bwrap", *folders)
    return None if program is None else probe(program)


@cache
def probe(program: str) -> Bubblewrap | None:
    """Tried for real, once; older versions support fewer of its options."""
    for one in (Bubblewrap(program, newer=True), Bubblewrap(program, newer=False)):
        if _succeeds(one.trial()):
            return one
    return None


class Bubblewrap:
    """A bubblewrap that works here."""

    def __init__(self, program: str, newer: bool) -> None:
        self._program = program
        self._newer = newer  # it can limit a tmpfs, and forbid further user namespaces

    def trial(self) -> list[str]:
        return [*_launcher_line(), *self._base_line(network=False, apart=False), "--", "/bin/sh", "-c", "exit 42"]

    def can_drop_root(self, root: Path, *granted: Path) -> bool:
        """Whether the commands of root can run as another user in this folder; tried for real, once."""
        if os.geteuid() != 0 or not self._newer or (setpriv := executable("setpriv", root)) is None:
            return False
        return _can_drop_root(self, setpriv, root, tuple(_existing(path) for path in granted))

    def command_line(self, workspace: Workspace, argv: list[str], folders: SandboxFolders) -> list[str]:
        root = workspace.root
        if root == Path("/"):
            raise NotDone("The folder of a sandbox cannot be the whole file system.")
        setpriv = executable("setpriv", root) if self.can_drop_root(root, *folders.granted) else None
        network = workspace.network and not folders.read_only
        return [
            *_launcher_line(setpriv, root, (*folders.granted, *folders.shown)),
            *self.line(root, folders, network=network, apart=setpriv is not None),
            *(("--chdir", str(root)) if setpriv is None else ()),
            "--",
            *argv,
        ]

    def line(self, root: Path, folders: SandboxFolders, *, network: bool, apart: bool) -> list[str]:
        """Bubblewrap and its options for a folder; `apart` is for a command that becomes another user."""
        line = self._base_line(network=network, root=root, apart=apart)
        inside = [path for path in folders.hidden if root in path.parents]
        outside = [path for path in folders.hidden if path not in inside and not _is_masked(path)]
        line += [word for path in outside for word in _hide(path)]
        line += [*_passable(root), "--ro-bind" if folders.read_only else "--bind", str(root), str(root)]
        kept = [one for one in (root / ".git", root / FILE, *own_code(root)) if one.exists() and not one.is_symlink()]
        for above in _folders_above(root, (*inside, *kept)):
            line += ["--ro-bind" if folders.read_only else "--bind", str(above), str(above)]
        line += [word for path in inside for word in _hide(path)]
        line += [word for one in kept for word in ("--ro-bind", str(one), str(one))]
        for path in folders.shown:
            if _is_masked(path) and not any(path == one or one in path.parents for one in (root, *folders.hidden)):
                line += [*_passable(path), "--ro-bind-try", str(path), str(path)]
        for path in folders.granted:
            line += [*_passable(path), "--bind", str(path), str(path)]
        for path in (*outside, *inside):  # last, because a granted path may lie in a hidden one
            line += ["--remount-ro", str(path)] if path.is_dir() else []
        return line

    def _base_line(self, *, network: bool, apart: bool, root: Path | None = None) -> list[str]:
        """Everything except the folder; with a folder, the home folders show only what a command needs."""
        line = [self._program, *_ALONE, *_BOUND]
        line += [word for one in NEEDED for word in ("--cap-add", one)] if apart else ["--unshare-user"]
        line += [] if network else ["--unshare-net"]
        line += ["--disable-userns"] if self._newer and not apart else []
        line += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
        for door in _READ_ONLY:
            line += ["--ro-bind-try", door, door]
        for empty in (*EMPTY, *(homes() if root is not None else ())):
            line += (["--perms", "1777"] if apart else []) + self._empty(empty)
        for path in readable(root) if root is not None else ():
            line += [*_passable(path), "--ro-bind-try", str(path), str(path)]
        line += ["--remount-ro", "/dev"]
        names = "/run/systemd/resolve"  # where the names of the network are looked up on many machines
        return line + (["--ro-bind-try", names, names] if network else [])

    def _empty(self, folder: Path) -> list[str]:
        size = ["--size", str(TEMPORARY)] if self._newer else []
        return [*size, "--tmpfs", str(folder)]


@cache
def _can_drop_root(bubblewrap: Bubblewrap, setpriv: str, root: Path, granted: tuple[Path, ...]) -> bool:
    line = bubblewrap.line(root, SandboxFolders(granted=granted), network=False, apart=True)
    check = f'[ "$(id -u)" = {USER} ] && cd "$0" && exit 42'
    return _succeeds([*_launcher_line(setpriv, root, granted), *line, "--", "/bin/sh", "-c", check, str(root)])


def _succeeds(trial: list[str]) -> bool:
    try:
        ended = subprocess.run(trial, check=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return False
    return ended.returncode == 42


def _launcher_line(setpriv: str | None = None, root: Path | None = None, more: tuple[Path, ...] = ()) -> list[str]:
    """The launcher and its options. Paths that root owns and the command needs are given to the other user."""
    line = [sys.executable, "-I", "-S", launcher.__file__]
    line += ["--filter", seccomp.program(sockets=True).hex()] if seccomp.known() else []
    if setpriv is not None and root is not None:
        line += ["--drop", setpriv, "--folder", str(root)]
        taken = [root]
        for path in sorted(one.resolve() if one.is_symlink() else one for one in (*more, *readable(root))):
            if path != Path("/") and not any(path == one or one in path.parents for one in taken):
                taken.append(path)
                line += ["--own", str(path)]
    return [*line, "--"]


class SandboxFolders(msgspec.Struct, frozen=True, kw_only=True):
    """What a command can reach besides its folder."""

    hidden: tuple[Path, ...] = ()
    shown: tuple[Path, ...] = ()
    granted: tuple[Path, ...] = ()
    read_only: bool = False


def _folders_above(root: Path, protected: tuple[Path, ...]) -> list[Path]:
    """The folders between the root and protected paths, from the top.

    Each becomes a mount of its own, because the kernel refuses to rename a mount point but not the folder above one: a
    command could move that folder away and put its own in the place.
    """
    return sorted({above for path in protected for above in path.parents if root in above.parents})


def _is_masked(path: Path) -> bool:
    """Whether a path lies where a command finds nothing, unless it is mounted again."""
    return any(path == empty or empty in path.parents for empty in (*EMPTY, *homes()))


def _existing(path: Path) -> Path:
    """The path, or the part of it that exists: it may be made later."""
    return path if path.exists() else _existing(path.parent)


def _passable(path: Path) -> list[str]:
    """Make the folders above a path that is mounted again; bubblewrap would close them like the path itself."""
    return ["--dir", str(path.parent if path.is_file() else path)]


def _hide(path: Path) -> list[str]:
    if path.is_dir():
        return ["--tmpfs", str(path)]
    return ["--ro-bind", "/dev/null", str(path)] if path.exists() else []
