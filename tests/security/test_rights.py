"""Attack: a command keeps root rights, or leaves a file that runs with the rights of the user who runs Perdure."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.agent.commands.sandbox import Level, drops_root
from perdure.control.doctor.findings import privileged
from tests.agent.commands.test_sandbox_unprivileged import ground, without_privilege
from tests.agent.support.requirements import need_bubblewrap, need_landlock
from tests.agent.support.sandbox_run import SandboxedFolder

__all__ = ["ground"]
LEVELS = pytest.mark.parametrize("level", [Level.BUBBLEWRAP, Level.LANDLOCK])
# Every way to a mode: by the C library, by raw calls, by a call of a 32-bit program, and by those that hide the mode.
MODES = r"""
import ctypes, mmap, os, sys
libc = ctypes.CDLL(None, use_errno=True)
open("a", "w").close()
raw = {"x86_64": dict(fchmodat2=452, openat2=437, io_uring=425, mknodat=259)}
raw["aarch64"] = raw["x86_64"] | dict(mknodat=33)
number = raw[os.uname().machine]
how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, 0o4755, 0)
ways = {
    "chmod": lambda: libc.chmod(b"a", 0o4755),
    "fchmod": lambda: libc.fchmod(os.open("a", os.O_RDONLY), 0o4755),
    "fchmodat": lambda: libc.fchmodat(-100, b"a", 0o4755, 0),
    "fchmodat2": lambda: libc.syscall(number["fchmodat2"], -100, b"a", 0o4755, 0),
    "open": lambda: libc.open(b"b", os.O_CREAT | os.O_WRONLY, 0o4755),
    "unnamed": lambda: libc.open(b".", os.O_TMPFILE | os.O_WRONLY, 0o4755),
    "creat": lambda: libc.creat(b"c", 0o4755),
    "mknod": lambda: libc.syscall(number["mknodat"], -100, b"d", 0o104755, 0),
    "openat2": lambda: libc.syscall(number["openat2"], -100, b"e", ctypes.byref(how), ctypes.c_size_t(24)),
    "io_uring": lambda: libc.syscall(number["io_uring"], 2, ctypes.byref((ctypes.c_uint32 * 30)())),
}
if os.uname().machine == "x86_64":
    page = mmap.mmap(-1, 4096, prot=7)
    low = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40)  # below 4 GiB
    low.write(b"a\0")
    place = ctypes.addressof(ctypes.c_char.from_buffer(low))
    page.write(b"\x53\xb8\x0f\0\0\0\x89\xfb\x89\xf1\xcd\x80\x5b\xc3")  # chmod of a 32-bit program: int 0x80
    old = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint32, ctypes.c_uint32)
    ways["int80"] = lambda: old(ctypes.addressof(ctypes.c_char.from_buffer(page)))(place, 0o4755)
for name, way in ways.items():
    if way() >= 0:
        print("passed:", name)
os.chmod("a", 0o755)
print("ordinary modes:", oct(os.stat("a").st_mode & 0o7777))
"""


def _leave_a_file(sandboxed: SandboxedFolder) -> Any:
    (sandboxed.root / "src" / "modes.py").write_text(MODES)
    _, said = sandboxed.run(
        "cd src && /usr/bin/env python3 -I modes.py; install -m 4755 /bin/true f; cp -a /usr/bin/su g"
    )
    made = [path for path in sandboxed.root.rglob("*") if path.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID)]
    return [line for line in said.splitlines() if ": " in line and "perm" not in line], list(map(str, made))


@pytest.mark.slow
@LEVELS
def test_no_file_can_be_left_that_runs_as_its_owner(level: Level, tmp_path: Path) -> None:
    need_bubblewrap() if level is Level.BUBBLEWRAP else need_landlock()
    assert _leave_a_file(SandboxedFolder(tmp_path, level)) == (["ordinary modes: 0o755"], [])


@pytest.mark.slow
@LEVELS
def test_an_ordinary_user_leaves_no_such_file_either(level: Level, ground: Path) -> None:
    assert without_privilege(level, ground, _leave_a_file) == [["ordinary modes: 0o755"], []]


def test_a_command_is_never_root(tmp_path: Path) -> None:
    need_bubblewrap()
    sandboxed = SandboxedFolder(tmp_path, Level.BUBBLEWRAP)
    _, said = sandboxed.run(
        "id -u; id -G; grep -c . /etc/shadow; grep Cap /proc/self/status; echo x > src/new; chmod 600 src/new"
    )
    user, groups, refused, *capabilities = said.splitlines()
    assert "0" not in (user, *groups.split())
    assert "Permission denied" in refused
    assert {line.split()[1] for line in capabilities} == {"0" * 16}
    made = (sandboxed.root / "src" / "new").stat()
    assert (made.st_uid, made.st_gid) == (os.geteuid(), os.getegid())


def test_files_that_only_root_may_read_can_be_changed_in_the_folder(tmp_path: Path) -> None:
    need_bubblewrap()
    sandboxed = SandboxedFolder(tmp_path, Level.BUBBLEWRAP)
    sandboxed.root.chmod(0o700)
    (sandboxed.root / "src" / "own").write_text("before\n")
    (sandboxed.root / "src" / "own").chmod(0o600)
    ending, said = sandboxed.run("cat src/own; echo after > src/own; echo heard > /dev/stderr")
    assert (ending.code, said, (sandboxed.root / "src" / "own").read_text()) == (0, "before\nheard\n", "after\n")


@pytest.fixture
def closed() -> Iterator[Path]:
    """A folder that lies where no other user may pass, and that the sandbox does not cover."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    (folder / "inner").mkdir()
    yield folder / "inner"
    shutil.rmtree(folder)


def test_where_no_other_user_may_pass_a_command_runs_without_capabilities(closed: Path) -> None:
    need_bubblewrap()
    sandboxed = SandboxedFolder(closed, Level.BUBBLEWRAP)
    ending, said = sandboxed.run("id -u; grep CapEff /proc/self/status; echo x > src/new")
    assert (ending.code, said.split()) == (0, [str(os.geteuid()), "CapEff:", "0" * 16])


def test_the_doctor_says_what_holds_for_root(tmp_path: Path, closed: Path) -> None:
    need_bubblewrap()
    found = [(one.level, one.what) for folder in (tmp_path, closed) for one in privileged(folder)]
    if os.geteuid() != 0:
        assert found == []
        return
    dropped, kept = found
    assert dropped[0] == "note"
    assert "`nobody`" in dropped[1]
    assert kept[0] == "risk"
    assert "without capabilities" in kept[1]
    assert [drops_root(folder) for folder in (tmp_path, closed)] == [True, False]
