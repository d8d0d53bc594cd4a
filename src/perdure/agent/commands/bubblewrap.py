"""Bubblewrap: namespaces of its own. The folder is writable, everything else is read-only or not there at all.

    /            as it is, read-only
    /tmp /dev/shm /run   empty and the command's own; sockets of services, such as Docker's, are out of reach
    home folders  empty and the command's own, but for what tools need (`homes.py`), read-only
    /proc        its own processes; the kernel's settings are read-only, for root too
    user         as root: `nobody`, where the folder can be mounted so that what is root's in it is his (`launcher.py`)
    modes        no file can be made set-user-ID (`seccomp.py`)
    processes    a space of its own: nothing outside can be seen or signalled, and all of it ends with the command
    network      none, but its own loopback, unless the workspace allows it
    the folder   writable, but `.git` and `perdure.toml` (read-only) and what is protected (hidden)

All of `.git` is read-only: a hook, a setting, a `commondir` or a rebase plan in it is code that git would run outside
the sandbox, or that whoever comes next would. `git status` and `git log` read it as it is; commits are the git tools'.
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


def found(*folders: Path) -> Found | None:
    """Bubblewrap as it works here, and not one that lies in these folders."""
    program = executable("bwrap", *folders)
    return None if program is None else tried(program)


@cache
def tried(program: str) -> Found | None:
    """Really tried, once; older versions know fewer of its options."""
    for one in (Found(program, newer=True), Found(program, newer=False)):
        if _ends_well(one.trial()):
            return one
    return None


class Found:
    """A bubblewrap that works here."""

    def __init__(self, program: str, newer: bool) -> None:
        self._program = program
        self._newer = newer  # it can bound a tmpfs, and forbid further user namespaces

    def trial(self) -> list[str]:
        return [*_launched(), *self._ground(network=False, apart=False), "--", "/bin/sh", "-c", "exit 42"]

    def drops_to_nobody(self, root: Path, *granted: Path) -> bool:
        """Whether the commands of root can run as another user in this folder; really tried, once."""
        if os.geteuid() != 0 or not self._newer or (setpriv := executable("setpriv", root)) is None:
            return False
        return _drops(self, setpriv, root, tuple(_there(path) for path in granted))

    def command_line(self, workspace: Workspace, argv: list[str], folders: Folders) -> list[str]:
        root = workspace.root
        if root == Path("/"):
            raise NotDone("The whole file system cannot be the folder of a sandbox.")
        setpriv = executable("setpriv", root) if self.drops_to_nobody(root, *folders.granted) else None
        network = workspace.network and not folders.read_only
        return [
            *_launched(setpriv, root, (*folders.granted, *folders.shown)),
            *self.line(root, folders, network=network, apart=setpriv is not None),
            *(("--chdir", str(root)) if setpriv is None else ()),
            "--",
            *argv,
        ]

    def line(self, root: Path, folders: Folders, *, network: bool, apart: bool) -> list[str]:
        """Bubblewrap and its options for a folder; `apart`, for a command that becomes another user."""
        line = self._ground(network=network, root=root, apart=apart)
        inside = [path for path in folders.hidden if root in path.parents]
        outside = [path for path in folders.hidden if path not in inside and not _is_covered(path)]
        line += [word for path in outside for word in _hide(path)]
        line += [*_passable(root), "--ro-bind" if folders.read_only else "--bind", str(root), str(root)]
        line += [word for path in inside for word in _hide(path)]
        for kept in (root / ".git", root / FILE, *own_code(root)):
            line += ["--ro-bind", str(kept), str(kept)] if kept.exists() and not kept.is_symlink() else []
        for path in folders.shown:
            if _is_covered(path) and not any(path == one or one in path.parents for one in (root, *folders.hidden)):
                line += [*_passable(path), "--ro-bind-try", str(path), str(path)]
        for path in folders.granted:
            line += [*_passable(path), "--bind", str(path), str(path)]
        for path in (*outside, *inside):  # last, because what is granted may lie in what is hidden
            line += ["--remount-ro", str(path)] if path.is_dir() else []
        return line

    def _ground(self, *, network: bool, apart: bool, root: Path | None = None) -> list[str]:
        """Everything but the folder; with one, the home folders show only what a command needs."""
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

    def _empty(self, place: Path) -> list[str]:
        size = ["--size", str(TEMPORARY)] if self._newer else []
        return [*size, "--tmpfs", str(place)]


@cache
def _drops(found: Found, setpriv: str, root: Path, granted: tuple[Path, ...]) -> bool:
    line = found.line(root, Folders(granted=granted), network=False, apart=True)
    check = f'[ "$(id -u)" = {USER} ] && cd "$0" && exit 42'
    return _ends_well([*_launched(setpriv, root, granted), *line, "--", "/bin/sh", "-c", check, str(root)])


def _ends_well(trial: list[str]) -> bool:
    try:
        ended = subprocess.run(trial, check=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return False
    return ended.returncode == 42


def _launched(setpriv: str | None = None, root: Path | None = None, more: tuple[Path, ...] = ()) -> list[str]:
    """What comes before bubblewrap itself. What is root's and needed is given to the other user by its real name."""
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


class Folders(msgspec.Struct, frozen=True, kw_only=True):
    """What is there for a command besides its folder."""

    hidden: tuple[Path, ...] = ()
    shown: tuple[Path, ...] = ()
    granted: tuple[Path, ...] = ()
    read_only: bool = False


def _is_covered(path: Path) -> bool:
    """Whether a path lies where a command finds nothing, unless it is put back."""
    return any(path == empty or empty in path.parents for empty in (*EMPTY, *homes()))


def _there(path: Path) -> Path:
    """The path, or what exists of it: it may be made later."""
    return path if path.exists() else _there(path.parent)


def _passable(path: Path) -> list[str]:
    """Make the folders above a path that is put back: bubblewrap itself would close them where the path is closed."""
    return ["--dir", str(path.parent if path.is_file() else path)]


def _hide(path: Path) -> list[str]:
    if path.is_dir():
        return ["--tmpfs", str(path)]
    return ["--ro-bind", "/dev/null", str(path)] if path.exists() else []
