"""`perdure serve` answers over HTTP, in real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

import httpx
import pytest

from perdure.testing.proxy import wait_until
from tests.control.supervisor.support.deployment import COMMAND, Deployment
from tests.control.supervisor.test_supervisor import is_running
from tests.server.support.service import PATIENCE

ONE = ("serve", "--workers", "1", "--port", "0", "--json")


def started(deployment: Deployment) -> dict[str, Any]:
    """The line that tells where the service listens."""
    found: list[dict[str, Any]] = []

    def is_told() -> bool:
        lines = [line for line in deployment.log.splitlines() if line.startswith('{"type":"serve.started"')]
        found[:] = [json.loads(line) for line in lines]
        return bool(found)

    wait_until(is_told, "the service told where it listens")
    return found[-1]


def running_http_process(deployment: Deployment) -> int:
    """The process `http`, when it is shown. It is read once: later there may be none."""
    found: list[int] = []

    def is_shown() -> bool:
        found[:] = [
            one.pid for one in deployment.processes() if one.id == "http" and one.state == "running" and one.pid
        ]
        return bool(found)

    wait_until(is_shown, "the process is shown")
    return found[0]


@pytest.mark.slow
@pytest.mark.databases("sqlite")
def test_service_answers_on_both_sockets_and_survives_its_kill(deployment: Deployment) -> None:
    served = deployment.start(*ONE, "--socket", str(deployment.folder / "sock"))
    address, unix = started(deployment)["addresses"]
    with httpx.Client(base_url=address, timeout=PATIENCE) as there:
        assert there.get("/livez").json() == {"status": "ok"}  # the socket was open before the process answers
        wait_until(lambda: there.get("/readyz").json()["status"] == "ready", "the store answers in time")
        assert there.get("/v1/self").status_code == 401
    peer = httpx.HTTPTransport(uds=unix.removeprefix("unix:"))
    with httpx.Client(base_url="http://perdure", transport=peer, timeout=PATIENCE) as here:
        assert here.get("/v1/self").json()["identity"] == f"os:{os.getuid()}"
        os.kill(killed := running_http_process(deployment), signal.SIGKILL)
        wait_until(lambda: not is_running(killed), "the process has ended")  # until then it could accept
    with httpx.Client(base_url=address, timeout=PATIENCE) as there:
        assert there.get("/livez").json() == {"status": "ok"}  # the request waited for the next process
        wait_until(lambda: there.get("/healthz").json() == {"status": "ok"}, "the store answers in time")
    served.terminate()
    assert served.wait(PATIENCE) == 0
    assert not (deployment.folder / "sock").exists()


@pytest.mark.slow
@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host", "0.0.0.0"], "does not listen on 0.0.0.0 before there is a token"),
        (["--tls-cert", sys.executable], "both a certificate and its key"),
        (["--root-path", "/a?b"], "is not a path under which a proxy serves"),
        (["--workers", "2", "--app", "nope.py"], "The app nope.py cannot be imported"),
        (["--workers", "2", "--app", "nope.programs"], "No module named 'nope'"),
    ],
)
def test_unsafe_or_wrong_options_start_nothing(words: list[str], said: str, deployment: Deployment) -> None:
    done = subprocess.run(
        [*COMMAND, *ONE, *words], env=deployment.environment, cwd=deployment.folder, capture_output=True, text=True
    )
    assert (done.returncode, said in done.stderr + done.stdout) == (2, True)
    assert (done.stderr.count(said), done.stdout) == (1, "")
    assert deployment.processes() == []
