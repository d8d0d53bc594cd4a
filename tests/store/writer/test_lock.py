"""Locks between processes: a stopped one is named, a dead one lets go, a child of a dead one still counts."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perdure.domain.worker import Liveness
from perdure.errors import StoreUnavailable
from perdure.store.writer.lock import Presence, WriteLock, life_of, present_names
from perdure.testing.proxy import wait_until

BEGIN = """
import fcntl, os, subprocess, sys
from pathlib import Path
from perdure.store.writer.lock import Presence, WriteLock
folder = Path(sys.argv[1])
"""


@contextmanager
def a_process(folder: Path, program: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has said it is where the test wants it."""
    command = [sys.executable, "-c", BEGIN + program, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "here\n"
            yield process
        finally:
            process.kill()


IN_THE_GATE = "lock = WriteLock(folder); lock.acquire(); print('here', flush=True); sys.stdin.read()"
FIRST_IN_LINE = """
turn = os.open(folder / "turn", os.O_RDWR | os.O_CREAT)
fcntl.flock(turn, fcntl.LOCK_EX); print('here', flush=True); sys.stdin.read()
"""
PRESENT = "here = Presence(folder, 'worker'); print('here', flush=True); sys.stdin.read()"
PARENT = """
here = Presence(folder, 'worker')
child = subprocess.Popen(["sleep", "60"], pass_fds=[here.descriptor])
(folder / "child").write_text(str(child.pid))
print('here', flush=True); sys.stdin.read()
"""


def test_a_stopped_lock_holder_is_named(folder: Path) -> None:
    gate = WriteLock(folder, limit=0.1)
    with a_process(folder, IN_THE_GATE) as other:
        os.kill(other.pid, signal.SIGSTOP)
        with pytest.raises(StoreUnavailable, match=rf"Process {other.pid} has kept .* for 0\.1 s") as caught:
            gate.acquire()
        assert caught.value.retry
    gate.acquire()  # it died, and death opens the gate
    gate.release()
    gate.close()


def test_a_second_writer_waits_until_the_lock_is_released(folder: Path) -> None:
    first, second = WriteLock(folder), WriteLock(folder)
    first.acquire()
    inside = threading.Event()

    def enter() -> None:
        second.acquire()
        inside.set()

    thread = threading.Thread(target=enter)
    thread.start()
    assert not inside.wait(0.05)
    first.release()
    assert inside.wait(60)
    thread.join()
    first.close()
    second.close()


def test_a_stopped_process_in_the_line_is_named_too(folder: Path) -> None:
    gate, told = WriteLock(folder, limit=0.1), threading.Event()

    def enter() -> None:
        try:
            gate.acquire()
        except StoreUnavailable:
            told.set()
        else:
            gate.release()

    thread = threading.Thread(target=enter)
    with a_process(folder, FIRST_IN_LINE) as other:
        os.kill(other.pid, signal.SIGSTOP)
        thread.start()
        was_told = told.wait(60)
    thread.join(60)
    gate.close()
    assert was_told


def test_presence_tells_the_living_from_the_dead(folder: Path) -> None:
    assert life_of(folder, "worker") is Liveness.DEAD
    with a_process(folder, PRESENT) as other:
        assert life_of(folder, "worker") is Liveness.ALIVE
        assert present_names(folder) == ["worker"]
        os.kill(other.pid, signal.SIGSTOP)
        assert life_of(folder, "worker") is Liveness.ALIVE
    assert life_of(folder, "worker") is Liveness.DEAD
    assert (folder / "worker").exists()
    assert present_names(folder) == []
    assert not (folder / "worker").exists()


def test_a_child_that_survives_counts_as_life(folder: Path) -> None:
    with a_process(folder, PARENT) as parent:
        child = int((folder / "child").read_text())
        (folder / "child").unlink()
    assert parent.wait() == -signal.SIGKILL
    assert life_of(folder, "worker") is Liveness.ALIVE
    os.kill(child, signal.SIGKILL)
    wait_until(lambda: life_of(folder, "worker") is Liveness.DEAD, "the child is dead")


def test_a_closed_presence_leaves_no_file(folder: Path) -> None:
    presence = Presence(folder / "present", "worker")
    assert present_names(folder / "present") == ["worker"]
    presence.close()
    assert present_names(folder / "present") == []
    assert list((folder / "present").iterdir()) == []
