"""The same hostile commands, run by a user without privileges; when the tests run as root, they change the user."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.agent.commands import bubblewrap, executables, landlock, launcher, runner, sandbox
from perdure.agent.commands.sandbox import Level
from perdure.agent.commands.state import MIB, Bounds
from tests.agent.support.requirements import need_bubblewrap, need_landlock
from tests.agent.support.sandbox_run import SandboxedFolder
from tests.forked import fork

Act = Callable[[SandboxedFolder], Any]


@pytest.fixture
def ground() -> Iterator[Path]:
    """A folder of the other user's, in which nothing but the sandbox protects one part from the other."""
    folder = Path(tempfile.mkdtemp())
    if os.geteuid() == 0:
        os.chown(folder, *_nobody())
    yield folder
    shutil.rmtree(folder)


def _nobody() -> tuple[int, int]:
    other = pwd.getpwuid(65534)
    return other.pw_uid, other.pw_gid


def _become_nobody(folder: Path) -> None:
    """This code may lie where the other user may not look: what a sandbox starts as a script is copied for him."""
    if os.geteuid() == 0:
        uid, gid = _nobody()
        for script in (runner, landlock, launcher):
            script.__file__ = str(shutil.copy(str(script.__file__), folder))
            os.chown(script.__file__, uid, gid)
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    os.environ["HOME"] = str(folder)
    usable = (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3")
    sys.executable = next(one for one in usable if _runs(one))
    for kept in (executables._find, bubblewrap.probe, sandbox.landlock_works):
        kept.cache_clear()


def _runs(python: str) -> bool:
    try:
        return subprocess.run([python, "-I", "-S", "-c", ""], check=False).returncode == 0
    except OSError:
        return False


def without_privilege(level: Level, folder: Path, act: Act) -> Any:
    """What an act in a den comes to for the other user."""
    if level is Level.BUBBLEWRAP:
        need_bubblewrap()
    if level is Level.LANDLOCK:
        need_landlock()
    reading, writing = os.pipe()

    def live() -> None:
        try:
            _become_nobody(folder)
            said = {"uid": os.geteuid(), "act": act(SandboxedFolder(folder / "den", level))}
        except BaseException:
            said = {"error": traceback.format_exc()}
        os.write(writing, json.dumps(said).encode())

    child = fork(live)
    os.close(writing)
    with open(reading, "rb") as pipe:
        told = json.loads(pipe.read())
    os.waitpid(child, 0)
    assert "error" not in told, told["error"]
    assert told["uid"] != 0
    return told["act"]


LEVELS = pytest.mark.parametrize("level", [Level.BUBBLEWRAP, Level.LANDLOCK])


@pytest.mark.slow
@LEVELS
def test_nothing_outside_is_written_directly_or_through_links(level: Level, ground: Path) -> None:
    def act(sandboxed: SandboxedFolder) -> Any:
        diary = sandboxed.world / "diary"
        sandboxed.run(
            f"echo x > {diary}; echo x > {sandboxed.world}/new; rm {diary}; mv {diary} src/; ln {diary} src/linked"
        )
        sandboxed.run(f"echo x > out; ln -s {sandboxed.world} src/way; echo x > src/way/diary; echo x > src/way/new")
        sandboxed.run(f"echo evil > .git/hooks/pre-commit; echo x > {sandboxed.store}; rm -rf {sandboxed.store.parent}")
        ending, _ = sandboxed.run("echo kept > src/file")
        made = (sandboxed.root / "src/file").read_text()
        return ending.code, made, diary.read_text(), os.listdir(sandboxed.world), sandboxed.store.read_text()

    assert without_privilege(level, ground, act) == [0, "kept\n", "dear diary", ["diary"], "the record"]


@LEVELS
def test_a_command_cannot_kill_the_worker_of_the_same_user(level: Level, ground: Path) -> None:
    def act(sandboxed: SandboxedFolder) -> Any:
        ending, said = sandboxed.run(f"kill -9 {os.getpid()}; kill -9 $PPID; kill -9 -1; echo alive")
        return ending.how, said.splitlines()[-1:]

    how, said = without_privilege(level, ground, act)
    assert how == "exited"
    assert said in (["alive"], [])  # its last blow may be for itself


@pytest.mark.slow
@LEVELS
def test_too_many_processes_are_ended(level: Level, ground: Path) -> None:
    # A bomb that goes out by itself: if it were not ended, it would be a few hundred sleepers and not the machine.
    bomb = "grow() { [ $1 -gt 0 ] && { grow $(($1-1)) & grow $(($1-1)) & wait; } || sleep 60; }; grow 8"

    def act(sandboxed: SandboxedFolder) -> Any:
        ending, _ = sandboxed.run(bomb, bounds=Bounds(seconds=60, processes=40))
        return ending.how, sandboxed.left_behind()

    assert without_privilege(level, ground, act) == ["processes", []]


@pytest.mark.slow
@LEVELS
def test_a_command_that_fills_the_disk_is_stopped(level: Level, ground: Path) -> None:
    fill = "i=0; while :; do i=$((i+1)); head -c 1000000 /dev/zero > src/$i; done"

    def act(sandboxed: SandboxedFolder) -> Any:
        return sandboxed.run(fill, bounds=Bounds(seconds=60, disk=8 * MIB))[0].how

    assert without_privilege(level, ground, act) == "disk"


@pytest.mark.slow
@LEVELS
def test_no_privilege_can_be_gained(level: Level, ground: Path) -> None:
    def act(sandboxed: SandboxedFolder) -> Any:
        return sandboxed.run("grep -E 'CapEff|NoNewPrivs' /proc/self/status; unshare -Ur true && echo namespace")[
            1
        ].split()

    said = without_privilege(level, ground, act)
    assert said[:4] == ["CapEff:", "0" * 16, "NoNewPrivs:", "1"]
    assert "namespace" not in said


def test_bubblewrap_is_used_with_user_namespaces_and_landlock_without(ground: Path) -> None:
    need_bubblewrap()
    need_landlock()

    def act(_: SandboxedFolder) -> Any:
        before = sandbox.available()
        _forbid_namespaces()
        for kept in (executables._find, bubblewrap.probe):
            kept.cache_clear()
        return before, sandbox.available()

    assert without_privilege(Level.NONE, ground, act) == ["bubblewrap", "landlock"]


def _forbid_namespaces() -> None:
    """As on a machine that lets only root make user namespaces: this process and all that come from it cannot."""
    clone, unshare, clone3 = {"x86_64": (56, 272, 435), "aarch64": (220, 97, 435)}[os.uname().machine]
    load, equal, holds, give, new_user = 0x20, 0x15, 0x45, 0x06, 0x10000000
    lines = [
        (load, 0, 0, 0), (equal, 4, 0, clone3), (equal, 1, 0, unshare), (equal, 0, 3, clone),
        (load, 0, 0, 16), (holds, 2, 1, new_user),
        (give, 0, 0, 0x00050000 | errno.ENOSYS), (give, 0, 0, 0x7FFF0000), (give, 0, 0, 0x00050000 | errno.EPERM),
    ]  # fmt: skip
    program = (landlock._Instruction * len(lines))(*(landlock._Instruction(*line) for line in lines))
    libc = ctypes.CDLL(None)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, ctypes.byref(landlock._Filter(len(lines), program)), 0, 0) == 0
