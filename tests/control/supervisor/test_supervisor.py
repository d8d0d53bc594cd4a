"""A supervisor with real processes: none is left behind, whichever process is killed."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perdure.control.supervisor.notification import ManagerNotifier, NotificationReceiver, take_notifier
from perdure.testing.proxy import wait_until

MODULE = "tests.control.supervisor.support.tree_process"
ROOT = Path(__file__).parents[3]


@contextmanager
def supervisor(name: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-m", MODULE, name], cwd=folder, stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()  # not for the end of its output: a child that was left behind would keep it open
        assert process.stdout is not None
        process.stdout.close()


def pid_in(path: Path) -> int:
    """The process id that a child wrote."""
    wait_until(lambda: path.exists() and path.read_text().endswith("\n"), f"{path.name} is written")
    return int(path.read_text())


def is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_death_of_the_supervisor_ends_its_processes(folder: Path) -> None:
    with supervisor("sleepers", folder) as process:
        pids = [pid_in(folder / name) for name in ("a", "b")]
        process.kill()
        process.wait()
        try:
            wait_until(lambda: not any(map(is_running, pids)), "the children have died")
        finally:
            for pid in filter(is_running, pids):
                os.kill(pid, signal.SIGKILL)


def test_process_is_not_killed_for_the_time_that_the_machine_slept(folder: Path) -> None:
    with supervisor("watched", folder) as process:
        for name in ("silent-starts", "signing-starts"):
            wait_until((folder / name).exists, f"{name} is written")
        (folder / "slept").touch()
        wait_until((folder / "signed").exists, "the supervisor has been woken")
        process.terminate()
        assert process.communicate(timeout=180)[0] == "silent: exit code 7\nsigning: exit code 7\nstopped\n"


def test_process_that_ignores_the_signal_is_killed_with_its_group_only(folder: Path) -> None:
    with supervisor("stubborn", folder) as process:
        leader, inside, outside = (pid_in(folder / name) for name in ("leader", "inside", "outside"))
        process.terminate()
        assert process.communicate(timeout=180)[0] == "stopped\n"
        assert process.returncode == 0
        assert (is_running(leader), is_running(inside)) == (False, False)
        assert is_running(outside)  # as a command runner, it is in a session of its own
        os.kill(outside, signal.SIGKILL)


def test_restart_storm_stops_at_the_budget(folder: Path) -> None:
    with supervisor("failing", folder) as process:
        said = process.communicate(timeout=180)[0]
    assert said == "a ended with exit code 7, and root may restart 2 times within 60 s\n"
    assert (process.returncode, (folder / "starts").read_text().split()) == (1, ["start"] * 3)


def test_command_that_cannot_be_started_counts_as_a_failure(folder: Path) -> None:
    with supervisor("missing", folder) as process:
        assert process.communicate(timeout=180)[0].startswith("a ended with exit code 127")


def test_end_of_a_worker_is_reported_with_its_name(folder: Path) -> None:
    with supervisor("worker", folder) as process:
        said = process.communicate(timeout=180)[0]
    assert re.fullmatch(r"w-1@host:7: process \d+ has ended\nstopped\n", said)


def test_supervisor_reaps_orphans_that_it_adopts(folder: Path) -> None:
    with supervisor("orphans", folder) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        wait_until((folder / "starts").exists, "the child has started")
        first = int(children.read_text().split()[0])
        os.kill(first, signal.SIGKILL)  # its child becomes a child of the supervisor
        wait_until(lambda: len((folder / "starts").read_text().split()) == 2, "the child was restarted")
        wait_until(lambda: len(children.read_text().split()) == 1, "the orphan was reaped")


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_notifications_reach_a_socket_of_either_kind(kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    address = str(folder / "notify") if kind == "path" else f"@perdure-test-{os.getpid()}"
    with receiver:
        receiver.bind(address.replace("@", "\0", 1))
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        monkeypatch.setenv("WATCHDOG_USEC", "3000000")
        notifier = take_notifier()
        assert "NOTIFY_SOCKET" not in os.environ  # commands of an agent must not speak for the service
        notifier.send(READY=1, STATUS="two\nlines")
        assert receiver.recv(1000) == b"READY=1\nSTATUS=two lines"
    assert notifier.watchdog == 3.0
    assert not notifier.send(READY=1)  # the manager is gone: nothing happens


def test_notification_that_finds_no_place_is_sent_with_the_next() -> None:
    receiver = NotificationReceiver()
    notifier = ManagerNotifier(receiver.address, watchdog=60)
    sent = 1
    while notifier.send(STATUS=f"line {sent}"):
        sent += 1
    assert not notifier.send(READY=1)
    received = [receiver.receive() for _ in range(sent)]
    assert [one is None for one in received] == [False] * (sent - 1) + [True]
    assert notifier.send_sign()
    found = receiver.receive()
    assert found is not None
    assert found.lines == {"STATUS": f"line {sent}", "READY": "1", "WATCHDOG": "1"}
    assert notifier.send_sign()
    found = receiver.receive()
    assert found is not None
    assert found.lines == {"WATCHDOG": "1"}
    receiver.close()


def test_process_is_ready_although_its_supervisor_stood_still(folder: Path) -> None:
    with supervisor("crowded", folder) as process:
        wait_until((folder / "started").exists, "the child has started", 60)
        process.send_signal(signal.SIGSTOP)
        (folder / "stopped").touch()
        wait_until((folder / "crowded").exists, "the child has sent more than the socket keeps", 60)
        process.send_signal(signal.SIGCONT)
        wait_until((folder / "running").exists, "the supervisor knows that the child is ready", 60)


def test_watchdog_of_another_process_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "3000000")
    monkeypatch.setenv("WATCHDOG_PID", "1")
    assert take_notifier().watchdog is None


def test_receiver_knows_which_process_sent_a_notification() -> None:
    receiver = NotificationReceiver()
    ManagerNotifier(receiver.address).send(READY=1)
    found = receiver.receive()
    assert found is not None
    assert (found.pid, found.lines) == (os.getpid(), {"READY": "1"})
    assert receiver.receive() is None
    receiver.close()
