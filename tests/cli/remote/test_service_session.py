"""A session of a real service with workers, used from several processes whose connections are lost once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from perdure.domain.principal import Role
from perdure.runtime.runtime import open as open_runtime
from perdure.testing.proxy import wait_until
from tests.client.support.cutting_proxy import cutting_proxy
from tests.control.supervisor.support.deployment import COMMAND, Deployment
from tests.server.support.tokens import a_token
from tests.server.test_serve_http import started

APP = str(Path(__file__).parent / "support" / "watched_app.py")
PATIENCE = 180.0


class Terminal:
    """A command of a person on another machine."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.printed = ""

    async def until(self, text: str) -> None:
        """Wait until it has printed a text."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            while text not in self.printed:
                line = await self._process.stdout.readline()
                assert line, self.printed
                self.printed += line.decode()

    async def end(self) -> int:
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            self.printed += (await self._process.stdout.read()).decode()
            return await self._process.wait()


@pytest.mark.slow
@pytest.mark.databases("sqlite")
async def test_session_is_run_watched_approved_and_finished_over_a_lost_connection(
    target: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    deployment = Deployment(target, folder)
    deployment.environment["PERDURE_APP"] = APP
    try:
        deployment.start("serve", "--workers", "1", "--port", "0", "--json")
        address = (await asyncio.to_thread(started, deployment))["addresses"][0]
        async with open_runtime(target) as runtime:
            token = await a_token(runtime, Role.OWNER)
        async with cutting_proxy(address) as proxy:
            kept = {name: deployment.environment[name] for name in deployment.environment if name[:8] != "PERDURE_"}
            environment = kept | {"PERDURE_STORE": proxy.address, "PERDURE_TOKEN": token, "PYTHONUNBUFFERED": "1"}

            async def terminal(*words: str) -> Terminal:
                return Terminal(
                    await asyncio.create_subprocess_exec(
                        *COMMAND, *words, env=environment, cwd=folder, stdin=asyncio.subprocess.DEVNULL,
                        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
                    )
                )  # fmt: skip

            proxy.lose_answers = 1  # the start is sent again, and is one session
            run = await terminal("run", "watched_review", "pr=7", "--id", "r")
            assert (await run.end(), "watched-gate" in run.printed) == (3, True), run.printed
            follow = await terminal("show", "r", "--follow")
            await follow.until("watched_merge")
            await asyncio.to_thread(wait_until, proxy.is_used, "the session is followed", PATIENCE)
            assert proxy.cut_streams() > 0
            approve = await terminal("approve", "r", "--because", "the tests pass")
            assert await approve.end() == 0, approve.printed
            attach = await terminal("attach", "r")
            await attach.until("watched_merge")
            assert await follow.end() == 0, follow.printed
            assert [follow.printed.count(one) for one in ("voted approved", "happened: 7")] == [1, 1], follow.printed
            assert await attach.end() in (0, 3), attach.printed
            again = await terminal("run", "watched_review", "pr=7", "--id", "r")
            assert (await again.end(), again.printed.strip().splitlines()[-1]) == (0, "7"), again.printed
    finally:
        await asyncio.to_thread(deployment.close)
