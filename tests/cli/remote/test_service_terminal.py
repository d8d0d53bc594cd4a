"""A person at a terminal with a session that a real service runs: read live, answered, approved, steered and left."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from perdure.domain.principal import Role
from perdure.runtime.runtime import open as open_runtime
from perdure.testing.proxy import wait_until
from tests.cli.support.pseudo_terminal import PseudoTerminal
from tests.client.support.cutting_proxy import CuttingProxy, cutting_proxy
from tests.control.supervisor.support.deployment import Deployment
from tests.server.support.tokens import a_token
from tests.server.test_serve_http import started

APPS = (
    Path(__file__).parents[1] / "support" / "stepped_model.py",
    Path(__file__).parent / "support" / "watched_app.py",
)
PATIENCE = 180.0
ASK = {"ask_person": {"question": "Which one?", "choices": ["left", "right"]}}
REPLIES: list[list[Any]] = [
    ["One ", "two.", ASK],
    ["Then ", "this.", {"stepped_merge": {"pr": 7}}],
    ["Done."],
    ["Bye."],
]


class ServedSession:
    """A service, the way to it, and the folder in which the model is told to continue."""

    def __init__(self, deployment: Deployment, proxy: CuttingProxy, token: str) -> None:
        self._deployment = deployment
        self._token = token
        self.proxy = proxy
        self.folder = deployment.folder
        (self.folder / "pieces.json").write_text(json.dumps(REPLIES))

    def go(self, pieces: int, reply: int = 0) -> None:
        for nth in range(pieces):
            (self.folder / f"go-{reply}-{nth}").touch()

    async def cut_streams(self) -> int:
        return self.proxy.cut_streams()

    def terminal(self, *words: str) -> PseudoTerminal:
        data = str(self.folder / "elsewhere")
        environment: dict[str, Any] = {
            "PERDURE_STORE": self.proxy.address,
            "PERDURE_TOKEN": self._token,
            "XDG_DATA_HOME": data,
        }
        seat = PseudoTerminal(*words, cwd=self.folder, **environment)
        seat.patience = PATIENCE
        return seat

    def until_status(self, status: str) -> None:
        wait_until(lambda: self._deployment.session("one").status == status, f"the session is {status}", PATIENCE)


@pytest.fixture
async def served(target: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ServedSession]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    deployment = Deployment(target, folder)
    deployment.environment["PERDURE_APP"] = ",".join(map(str, APPS))
    try:
        deployment.start("serve", "--workers", "1", "--port", "0", "--json")
        address = (await asyncio.to_thread(started, deployment))["addresses"][0]
        async with open_runtime(target) as runtime:
            token = await a_token(runtime, Role.OWNER)
        async with cutting_proxy(address) as proxy:
            yield ServedSession(deployment, proxy, token)
    finally:
        await asyncio.to_thread(deployment.close)


@pytest.mark.slow
@pytest.mark.databases("sqlite")
async def test_person_reads_answers_and_approves_through_a_service(served: ServedSession) -> None:
    loop = asyncio.get_running_loop()

    def begin() -> None:
        served.go(1)
        with served.terminal("run", "stepped_merger", f"prompt={served.folder}", "--id", "one") as seat:
            seat.until("\nOne\n")
            seat.type("\x03")
            seat.until("Session one continues in the background.\n")
            assert seat.ended() == 0
        served.until_status("running")

    def return_to_it() -> None:
        with served.terminal("attach", "one") as seat:
            seat.until("\nOne\n")
            served.go(3)
            seat.until("? Which one?\n    1 left\n    2 right\nanswer > ")
            seat.type("2\n")
            seat.until("answered: right")
            served.go(1, reply=1)
            seat.until("\nThen\n")
            assert asyncio.run_coroutine_threadsafe(served.cut_streams(), loop).result() > 0
            seat.type("be quick\n")
            served.go(3, reply=1)
            seat.until("? stepped_merge needs your approval (gate stepped-gate)\n    pr  7\n")
            seat.until("m > ")
            seat.type("m")
            seat.until("intent digest")
            seat.until("m > ", times=2)
            seat.type("y")
            seat.until("stepped_merge: approved by owner-0")
            seat.until("\n> be quick\n")
            served.go(2, reply=2)
            seat.until("\nDone.\n")
            shown = [seat.text.count(one) for one in ("\n? Which one?\n", "\nThen this.\n", "\nDone.\n")]
            assert shown == [1, 1, 1], seat.text
            seat.type("/status\n")
            seat.until("it waits for")
            seat.type("and more\n")
            seat.until("\n> and more\n")
            served.go(2, reply=3)
            seat.until("\nBye.\n")
            seat.until("\n> \n0 tokens · one")
            seat.type("\x03")
            seat.until("waits for your next message")
            assert (seat.ended(), seat.text.count("Bye.")) == (0, 1), seat.text

    def refuse() -> None:
        with served.terminal("run", "watched_review", "pr=8", "--id", "two") as seat:
            seat.until("? watched_merge needs your approval (gate watched-gate)\n    pr  8\n")
            seat.until("m > ")
            seat.type("n")
            seat.until("reason, or Enter for none > ")
            seat.type("not today\n")
            seat.until("voted denied")
            assert (seat.ended(), "not today" in seat.text) == (1, True), seat.text

    await asyncio.to_thread(begin)
    await asyncio.to_thread(return_to_it)
    await asyncio.to_thread(refuse)
