"""`perdure serve` under kills: sessions continue, effects happen once, and no process is left."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.control.supervisor.support.deployment import APP, COMMAND, PATIENCE, Deployment
from tests.control.supervisor.support.served_programs import served_stages, served_trouble
from tests.control.supervisor.test_supervisor import is_running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.databases("sqlite", "postgres")
async def test_sessions_survive_the_death_of_a_worker_and_of_the_supervisor(deployment: Deployment) -> None:
    folder = str(deployment.folder)
    gates = {"a": "go-a", "b": "go-b", "c": "go-b"}
    await deployment.start_sessions(**{id: served_stages.bind(folder=folder, gate=gates[id]) for id in gates})
    served = deployment.start("serve", "--workers", "2", "--concurrency", "2")
    deployment.until_served()
    for id in gates:
        deployment.until_exists(f"{id}-waits")

    holder = deployment.kill_worker_of("a")  # its lease lasts an hour, but its process is known to be dead
    deployment.until(lambda: deployment.session("a").lease_holder not in (None, holder), "another worker has taken it")
    (deployment.folder / "go-a").touch()
    deployment.until_status("a", "done")
    deployment.until(lambda: sum(one.restarts for one in deployment.processes()) == 1, "the worker was restarted")

    before = deployment.until_served()
    served.kill()
    served.wait()
    deployment.until(lambda: not any(is_running(one.pid or 0) for one in before), "every process has died")
    deployment.until(lambda: {one.state for one in deployment.processes()} == {"dead"}, "all of them are shown as dead")

    again = deployment.start("serve", "--workers", "1")
    (deployment.folder / "go-b").touch()
    for id in ("b", "c"):
        deployment.until_status(id, "done")
    assert deployment.lines() == [f"{id} {number}" for id in gates for number in (1, 2)]
    again.terminate()
    assert again.wait(PATIENCE) == 0
    assert [one.state for one in deployment.processes() if one.state != "dead"] == []


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(("code", "said"), [("import os; os._exit(3)", "exit code 3"), ("1 / 0", "exit code 2")])
def test_workers_that_cannot_start_end_the_tree(code: str, said: str, deployment: Deployment) -> None:
    (deployment.folder / "broken.py").write_text(code)
    served = deployment.start("serve", "--workers", "1", "--restarts", "1", "--app", "broken.py")
    assert served.wait(PATIENCE) == (1 if said == "exit code 3" else 2)
    assert f"error: Everything was stopped: worker-1 ended with {said}" in deployment.log
    deployment.until(lambda: not _children_of(served.pid), "no process is left")


def _children_of(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return []


@pytest.mark.databases("sqlite")
async def test_trouble_of_one_isolated_session_takes_no_other_along(deployment: Deployment) -> None:
    folder = str(deployment.folder)
    kinds = ("exit", "block", "memory", "raise")
    await deployment.start_sessions(
        good=served_stages.bind(folder=folder),
        **{kind: served_trouble.bind(folder=folder, kind=kind) for kind in kinds},
    )
    worker = deployment.start("worker", "--isolate", "--concurrency", "3")
    deployment.until_exists("good-waits")
    holder = deployment.session("good").lease_holder
    for kind in kinds:
        deployment.until_exists(f"{kind}-met")
    deployment.until_status("exit", "waiting")  # it has ended five processes in a row
    deployment.until_status("raise", "failed")
    assert (deployment.session("good").lease_holder, deployment.session("good").crash_count) == (holder, 0)
    (deployment.folder / "go").touch()
    deployment.until_status("good", "done")
    assert deployment.session("block").status == "running"
    (deployment.folder / "mended").touch()
    deployment.until_status("block", "done")
    worker.terminate()
    assert worker.wait(PATIENCE) == 0


@pytest.mark.databases("sqlite", "postgres")
def test_detached_session_is_left_to_a_worker_that_takes_it(deployment: Deployment) -> None:
    (deployment.folder / "go").touch()
    (deployment.folder / "other.py").write_text("import perdure\n@perdure.tool\ndef other() -> None: ...\n")

    def start(id: str, *options: str) -> dict[str, Any]:
        words = ("run", "served_stages", f"folder={deployment.folder}", "--id", id, "--detach", "--json", *options)
        printed = subprocess.run(
            [*COMMAND, *words], env=deployment.environment, cwd=deployment.folder, capture_output=True, check=True
        ).stdout
        return dict(json.loads(printed))

    worker = deployment.start("worker", "--queues", "default")
    deployment.until(lambda: [one.state for one in deployment.processes()] == ["running"], "the worker runs")
    served = start("a")
    assert (served["worker"], served["served_by"].endswith(f":{worker.pid}")) == (None, True)
    other_queue, other_code = start("b", "--queue", "night"), start("c", "--app", APP, "--app", "other.py")
    assert [(one["worker"] is None, one["served_by"]) for one in (other_queue, other_code)] == [(False, None)] * 2
    for id in ("a", "b", "c"):
        deployment.until_status(id, "done")
    worker.terminate()
    assert worker.wait(PATIENCE) == 0
    assert start("d")["served_by"] is None
    deployment.until_status("d", "done")
