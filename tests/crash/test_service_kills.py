"""Service, worker, supervisor and database are killed while clients start, rename, vote, export, import and stream.

No request that was acknowledged is lost, and none is done twice. What the clients were told is the witness.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import perdure
from perdure import Runtime
from perdure.domain.principal import Role
from perdure.domain.session import Status
from perdure.testing.postgres import PostgresServer
from perdure.testing.proxy import loopback_listener, wait_until
from tests.control.supervisor.support.deployment import Deployment
from tests.control.supervisor.test_supervisor import is_running
from tests.crash.support.service_clients import VERBS, Client, ClientLog, Tokens, merged
from tests.crash.support.verdict import HEADS, examine
from tests.figures import record
from tests.seed import chance
from tests.server.support.tokens import a_token

pytestmark = [pytest.mark.slow, pytest.mark.databases("sqlite", "postgres")]
APP = str(Path(__file__).with_name("support") / "service_app.py")
CLIENTS, BURST = 3, 8


class Kill(NamedTuple):
    """Kill a process when a request of this kind is under way, and others have just been acknowledged.

    `answer` is the process `http`, at the moment when a commit is durable and its answer is not sent.
    """

    victim: str
    verb: str


class KilledService:
    """`perdure serve` whose processes are killed, and which is started again at the same address."""

    def __init__(self, target: str, folder: Path, server: PostgresServer | None) -> None:
        with loopback_listener() as free:
            self._port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{self._port}"
        self.deployment = Deployment(target, folder)
        self.deployment.environment["PERDURE_APP"] = APP
        self._server = server
        self._folder = folder
        self.begin()

    @property
    def victims(self) -> list[str]:
        return ["http", "answer", "worker-1", "supervisor", *(["database"] if self._server is not None else [])]

    def begin(self) -> None:
        words = ("serve", "--workers", "1", "--port", str(self._port), "--socket", str(self._folder / "sock"))
        self._supervisor = self.deployment.start(*words)

    def kill(self, victim: str) -> None:
        """Kill it with SIGKILL; whatever does not come back by itself is started again."""
        if victim == "database":
            assert self._server is not None
            self._server.restart()
        elif victim == "supervisor":
            left = [one.pid or 0 for one in self.deployment.processes()]
            self._supervisor.kill()
            self._supervisor.wait()
            wait_until(lambda: not any(map(is_running, left)), "its processes have ended")
            self.begin()
        elif victim == "answer":
            (self._folder / "die").touch()
            wait_until(lambda: not (self._folder / "die").exists(), "the service died before it answered")
        else:
            os.kill(self._until_runs(victim), signal.SIGKILL)

    def _until_runs(self, name: str) -> int:
        found: list[int] = []

        def runs() -> bool:
            running = [one for one in self.deployment.processes() if one.id == name and one.state == "running"]
            found[:] = [one.pid or 0 for one in running if is_running(one.pid or 0)]
            return bool(found)

        wait_until(runs, f"{name} runs")
        return found[0]


@pytest.fixture
def killed(
    request: pytest.FixtureRequest, target: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[KilledService]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    server: PostgresServer | None = None
    if target.startswith("postgresql:"):
        server = request.getfixturevalue("victim")
        target = server.create_database()
    made = KilledService(target, folder, server)
    yield made
    made.deployment.close()


async def attack(killed: KilledService, kills: list[Kill], log: ClientLog, folder: Path) -> list[Client]:
    """Let clients work while processes are killed; returns the clients when all their requests are answered."""
    is_over = False
    async with perdure.open(killed.deployment.target) as runtime:
        owner = await a_token(runtime, Role.OWNER)
        tokens = Tokens(owner, (await a_token(runtime, Role.APPROVER), await a_token(runtime, Role.APPROVER)))
    async with perdure.open(folder / "source.db") as source:
        clients = [Client(log, tokens, source, lambda: is_over) for _ in range(CLIENTS)]
        working = asyncio.gather(*(one.run() for one in clients))
        for kill in kills:
            await asyncio.gather(*(clients[0].start("killed_echo") for _ in range(CLIENTS)))  # it answers
            burst = asyncio.gather(*(clients[0].start("killed_echo") for _ in range(BURST)))
            told = len(log.acknowledged)
            while kill.victim != "answer" and not (len(log.acknowledged) > told and log.in_flight[kill.verb]):
                if working.done():
                    working.result()  # it ends before only if it failed
                await asyncio.sleep(0.001)
            await asyncio.to_thread(killed.kill, kill.victim)
            await burst
        is_over = True
        await working
    return clients


async def problems(runtime: Runtime, log: ClientLog, clients: list[Client], folder: Path) -> list[str]:
    """What was acknowledged and is not there exactly once."""
    sessions = [one async for one in runtime.sessions()]
    events = {one.uid: [event async for event in runtime.events(one.uid)] for one in sessions}

    def once(what: str, told: list[str], there: list[str], each: int = 1) -> list[str]:
        counted = Counter(there)
        wrong = {one: counted[one] for one in {*told, *there} if counted[one] != each}
        return [f"{what}: told {len(told)}, and there so many times: {wrong}"] if wrong or not told else []

    def with_event(kind: str) -> list[str]:
        return [uid for uid, lines in events.items() for line in lines if line.kind == kind]

    titles = [
        str(line.body["rows"]["session"]["title"])
        for client in clients for line in events[client.watched]
        if line.kind == "session.described" and "title" in line.body["rows"]["session"]
    ]  # fmt: skip
    voted = log.subjects("vote")
    found = [
        *once(
            "starts", log.subjects("start"), [str(one.arguments["n"]) for one in sessions if one.arguments["n"] >= 0]
        ),
        *once("renames", log.subjects("rename"), titles),
        *once("votes", voted, with_event("approval.voted"), 2),
        *once("exports", log.subjects("export"), with_event("session.sealed")),
        *once("imports", log.subjects("import"), [one.id for one in sessions if one.arguments["n"] == -1]),
    ]
    found += [
        f"the stream of {client.watched} gave {client.seen}"
        for client in clients
        if client.seen != list(range(1, len(events[client.watched]) + 1))
    ]
    once_merged = merged(str(folder))
    found += [
        f"{one.id} merged {once_merged[str(one.arguments['n'])]} times"
        for one in sessions
        if one.uid in voted and once_merged[str(one.arguments["n"])] != 1
    ]
    for one in sessions:
        verdict = await runtime.store.read(examine, one.uid)
        found += [f"{one.id}: {sentence}" for head in HEADS for sentence in verdict[head]]
    return found


async def until_done(runtime: Runtime) -> None:
    """Wait until no session runs or is ready: those that remain wait for a time that is far."""
    async with asyncio.timeout(180):
        while [one async for one in runtime.sessions() if one.status in (Status.READY, Status.RUNNING)]:
            await asyncio.sleep(0.05)


async def judge(killed: KilledService, kills: list[Kill], folder: Path) -> None:
    log = ClientLog(killed.address)
    async with log.http:
        clients = await attack(killed, kills, log, folder)
        wrong = await log.ask_again()
        async with perdure.open(killed.deployment.target) as runtime:
            await until_done(runtime)
            wrong += await problems(runtime, log, clients, folder)
    counts = [len(log.subjects(verb)) for verb in VERBS]
    name = "PostgreSQL" if "database" in killed.victims else "SQLite"
    record("a service under kills", ("kills", *VERBS, "wrong"), (name, len(kills), *counts, len(wrong)))
    assert wrong == []


async def test_every_acknowledged_request_is_done_exactly_once(killed: KilledService, folder: Path) -> None:
    victims = chance().sample(killed.victims, len(killed.victims))
    await judge(killed, [Kill(victim, chance().choice(VERBS)) for victim in victims], folder)


@pytest.mark.soak
async def test_every_acknowledged_request_is_done_once_under_many_kills(killed: KilledService, folder: Path) -> None:
    kills = [Kill(victim, verb) for _ in range(4) for verb in VERBS for victim in killed.victims]
    await judge(killed, chance().sample(kills, len(kills)), folder)
