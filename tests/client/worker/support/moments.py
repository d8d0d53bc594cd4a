"""Kills a worker at a moment of its work through a service: before a move is committed, or after it and before the
answer. The moves are counted where they arrive, in the service."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

APP = str(Path(__file__).with_name("remote_app.py"))
COMMAND = [sys.executable, "-P", "-c", "from perdure.cli import main; main()"]
BESIDE = ("lease.renew", "worker.register", "worker.heartbeat", "worker.set_draining", "worker.forget", "claim.claim")


RENEWAL = "lease.renew"


class Moment(NamedTuple):
    """The number of a move, and whether it is committed."""

    number: int
    when: str


class Interceptor:
    """Around a service: counts the moves of a worker, and kills the worker at a chosen one."""

    def __init__(self) -> None:
        self.app: ASGIApp | None = None
        self.moves: list[str] = []
        self.kill_at: Moment | None = None
        self.victim: subprocess.Popen[bytes] | None = None
        self.killed: str | None = None  # the move at which the worker was killed
        self.held: frozenset[str] = frozenset()  # moves that are carried out, and answered later

    def around(self, app: ASGIApp) -> ASGIApp:
        self.app = app
        return self

    def begin(self, kill_at: Moment | None) -> None:
        self.moves, self.kill_at, self.killed = [], kill_at, None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self.app is not None
        if scope["type"] != "http" or scope["path"] != "/v1/work/moves":
            await self.app(scope, receive, send)
            return
        messages = [message := await receive()]
        while message.get("more_body"):
            messages.append(message := await receive())
        name = msgspec.json.decode(b"".join(one.get("body", b"") for one in messages))["move"]
        moment = self._next(name)
        if self._is_due(moment, "before"):
            self._kill(name)
            return  # it never arrived
        while name == RENEWAL and name in self.held:  # it does not arrive
            await asyncio.sleep(0.01)
        waiting = iter(messages)

        async def again() -> Message:
            return next(waiting, None) or await receive()

        async def answer(message: Message) -> None:
            if self._is_due(moment, "after"):
                self._kill(name)
            while name in self.held:
                await asyncio.sleep(0.01)
            await send(message)

        await self.app(scope, again, answer)

    def _next(self, name: str) -> int | None:
        if name in BESIDE:
            return None
        self.moves.append(name)
        return len(self.moves)

    def _is_due(self, number: int | None, when: str) -> bool:
        return self.kill_at is not None and self.killed is None and self.kill_at == (number, when)

    def _kill(self, name: str) -> None:
        assert self.victim is not None
        self.killed = name
        self.victim.send_signal(signal.SIGKILL)
        self.victim.wait()


def start_worker(address: str, token: str, folder: Path, *words: str, **environment: str) -> subprocess.Popen[bytes]:
    """A real worker process of a service."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    given = kept | {
        "PERDURE_STORE": address, "PERDURE_TOKEN": token, "PERDURE_APP": APP, "PERDURE_LEASE": "300s",
        "XDG_RUNTIME_DIR": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder),
    } | environment  # fmt: skip
    with open(folder / "worker.log", "ab") as log:
        return subprocess.Popen([*COMMAND, "worker", *words], env=given, cwd=folder, stdout=log, stderr=log)


def bodies(sink: Any) -> dict[str, int]:
    """How often each body is stored outside."""
    found: dict[str, int] = {}
    for one in sink.kept():
        name = msgspec.json.encode(one["body"]).decode()
        found[name] = found.get(name, 0) + 1
    return found
