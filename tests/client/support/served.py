"""The processes of a service, and kills of the one that answers."""

from __future__ import annotations

import asyncio
import json
import os
import signal

import perdure
from perdure.domain.principal import Role
from tests.client.support.cutting_proxy import CuttingProxy
from tests.control.supervisor.support.deployment import Deployment
from tests.server.support.tokens import a_token

KILLS, FEW = 2, 4


async def token_for(served: Deployment, role: Role = Role.OWNER) -> str:
    async with perdure.open(served.target) as runtime:
        return await a_token(runtime, role)


def address_of(served: Deployment) -> str:
    """The port of the service, as it tells it when it has started."""
    lines = [line for line in served.log.splitlines() if line.startswith('{"type":"serve.started"')]
    address: str = json.loads(lines[-1])["addresses"][0]
    return address


def http_process(served: Deployment) -> int:
    found = [one for one in served.processes() if one.id == "http" and one.state == "running"]
    return found[0].pid or 0 if found else 0


async def kill_again_and_again(served: Deployment, proxy: CuttingProxy, kills: int = KILLS) -> None:
    """Kill the process that answers, each time when the next one runs and requests come through the proxy."""
    killed = 0
    for _ in range(kills):
        pid = 0
        while pid in (0, killed):
            await asyncio.sleep(0.05)
            pid = await asyncio.to_thread(http_process, served)
        came = proxy.posts
        while proxy.posts < came + FEW:
            await asyncio.sleep(0.01)
        os.kill(pid, signal.SIGKILL)
        killed = pid
