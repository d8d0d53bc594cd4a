"""Who is at the other end of a Unix socket: a user, but not a command of an agent that runs as this user."""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

import perdure
from perdure.agent.commands.sandbox import Level
from perdure.server.protocol import peer_uid
from tests.agent.support.requirements import need_landlock
from tests.agent.support.sandbox_run import SandboxedFolder
from tests.client.support.service import service
from tests.server.support.service import PATIENCE

CONNECT = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.recv(1); print('connected')"


@pytest.mark.parametrize("sandboxed", [False, True])
async def test_a_sandboxed_command_is_not_the_user_it_runs_as(sandboxed: bool, tmp_path: Path) -> None:
    if sandboxed:
        need_landlock()
    seen: list[int | None] = []

    async def note(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(peer_uid(writer.transport))
        writer.close()

    path = str(tmp_path / "sock")
    words = [sys.executable, "-Ic", CONNECT, path]
    async with await asyncio.start_unix_server(note, path):
        if sandboxed:
            _, said = await asyncio.to_thread(SandboxedFolder(tmp_path, Level.LANDLOCK).run, shlex.join(words))
        else:
            said = await asyncio.to_thread(lambda: subprocess.run(words, capture_output=True, text=True).stdout)
    assert said.strip() == "connected"
    assert seen == [None if sandboxed else os.getuid()]


@pytest.mark.databases("sqlite")
async def test_a_rebound_name_is_refused_on_a_forwarded_socket(target: str, folder: Path) -> None:
    """The browser of the person who forwards the socket would be this person, for every page that is open in it."""
    async with perdure.open(target) as runtime, service(runtime, str(folder / "sock")):
        peer = httpx.AsyncHTTPTransport(uds=str(folder / "sock"))
        async with httpx.AsyncClient(base_url="http://perdure", transport=peer, timeout=PATIENCE) as here:
            for host, status in (("evil.example.org:8080", 421), ("localhost:8080", 200), ("perdure", 200)):
                assert (await here.get("/v1/self", headers={"Host": host})).status_code == status
