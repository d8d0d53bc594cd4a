"""A worker process that is asked to stop, is recycled, or is blocked by one of its sessions: nothing is lost."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from perdure.control.supervisor.specification import GIVEN_BACK
from tests.control.supervisor.support.deployment import PATIENCE, Deployment
from tests.control.supervisor.support.served_programs import served_slow_act, served_stages, served_trouble

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.databases("sqlite")]


def is_draining(deployment: Deployment) -> bool:
    return [one.state for one in deployment.processes()] == ["draining"]


async def test_drained_worker_finishes_its_sessions_and_takes_no_other(deployment: Deployment) -> None:
    folder = str(deployment.folder)
    await deployment.start_sessions(a=served_stages.bind(folder=folder))
    worker = deployment.start("worker", "--drain", "300s")
    deployment.until_exists("a-waits")
    worker.terminate()
    deployment.until(lambda: is_draining(deployment), "it drains")
    await deployment.start_sessions(late=served_stages.bind(folder=folder))
    (deployment.folder / "go").touch()
    assert worker.wait(PATIENCE) == 0
    assert (deployment.session("a").status, deployment.session("late").status) == ("done", "ready")


async def test_drain_past_its_deadline_gives_back_and_loses_no_outcome(deployment: Deployment) -> None:
    folder = str(deployment.folder)
    await deployment.start_sessions(a=served_stages.bind(folder=folder), slow=served_slow_act.bind(folder=folder))
    worker = deployment.start("worker", "--drain", "1ms")
    deployment.until_exists("a-waits")
    deployment.until_exists("acting")
    worker.terminate()
    deployment.until_status("a", "ready")  # given back, while the act of the other is awaited
    assert worker.poll() is None
    (deployment.folder / "act").touch()
    assert worker.wait(PATIENCE) == GIVEN_BACK
    (deployment.folder / "go").touch()
    assert deployment.start("worker", "--idle", "0.1").wait(PATIENCE) == 0
    assert (deployment.session("a").status, deployment.session("slow").status) == ("done", "done")
    assert deployment.lines() == ["a 1", "a 2", "slow"]


async def test_second_signal_gives_back_at_once(deployment: Deployment) -> None:
    await deployment.start_sessions(a=served_stages.bind(folder=str(deployment.folder)))
    worker = deployment.start("worker", "--drain", "300s")
    deployment.until_exists("a-waits")
    worker.terminate()
    deployment.until(lambda: is_draining(deployment), "it drains")
    worker.terminate()
    assert worker.wait(PATIENCE) == GIVEN_BACK
    assert deployment.session("a").status == "ready"


async def test_worker_is_recycled_after_its_sessions_and_notifies_its_manager(
    deployment: Deployment, folder: Path
) -> None:
    (folder / "go").touch()
    await deployment.start_sessions(**{id: served_stages.bind(folder=str(folder)) for id in ("a", "b")})
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(folder / "notify"))
        manager.settimeout(PATIENCE)
        deployment.environment |= {"NOTIFY_SOCKET": str(folder / "notify"), "WATCHDOG_USEC": "200000"}
        worker = deployment.start("worker", "--concurrency", "1", "--recycle-sessions", "1")
        assert manager.recv(1000).decode().endswith("\nREADY=1")
        said = manager.recv(1000)
        while said == b"WATCHDOG=1":
            said = manager.recv(1000)
        assert said.startswith(b"STOPPING=1\nSTATUS=draining")
        assert worker.wait(PATIENCE) == 0
    assert sorted(deployment.session(id).status for id in ("a", "b")) == ["done", "ready"]


@pytest.mark.parametrize("end", ["exits", "recovers"])
async def test_session_that_blocks_its_worker_does_not_hold_back_the_others(end: str, deployment: Deployment) -> None:
    folder = str(deployment.folder)
    await deployment.start_sessions(a=served_stages.bind(folder=folder), slow=served_slow_act.bind(folder=folder))
    worker = deployment.start("worker", "--hang", "400ms" if end == "exits" else "5s")
    deployment.until_exists("a-waits")
    deployment.until_exists("acting")
    await deployment.start_sessions(block=served_trouble.bind(folder=folder, kind="block"))
    deployment.until_exists("block-met")
    deployment.until_status("a", "ready")
    assert deployment.session("slow").status == "running"  # its act is under way
    (deployment.folder / "act").touch()
    deployment.until_status("slow", "ready")
    if end == "exits":
        assert worker.wait(PATIENCE) == 70
    assert "session block has blocked the event loop" in deployment.log
    for name in ("go", "mended"):
        (deployment.folder / name).touch()
    if end == "exits":
        assert deployment.start("worker", "--idle", "0.1").wait(PATIENCE) == 0
    for id in ("a", "slow", "block"):
        deployment.until_status(id, "done")
    assert deployment.lines() == ["a 1", "a 2", "slow"]


def test_service_gives_signs_of_life(deployment: Deployment, folder: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(folder / "notify"))
        manager.settimeout(PATIENCE)
        deployment.environment |= {"NOTIFY_SOCKET": str(folder / "notify"), "WATCHDOG_USEC": "200000"}
        service = deployment.start("service", "timers")
        assert manager.recv(1000).decode().endswith("\nREADY=1")
        assert [manager.recv(1000) for _ in range(3)] == [b"WATCHDOG=1"] * 3
        service.terminate()
        assert service.wait(PATIENCE) == 0


async def test_supervised_worker_drains_when_a_program_interrupts_it(deployment: Deployment) -> None:
    await deployment.start_sessions(a=served_trouble.bind(folder=str(deployment.folder), kind="interrupt"))
    worker = deployment.start("worker", "--parent", "w-0")
    assert worker.wait(PATIENCE) == 0  # otherwise the worker fails, and the session ends one worker after another
    assert deployment.session("a").status == "done"
