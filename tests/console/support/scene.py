"""A store with people, sessions and a worker, and the service with its console in front of it, in one thread beside the
test. The test has a browser."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import uvicorn

import perdure
from perdure import Agent, Gate, Outcome, Session, program, tool
from perdure.cli.demo.fixtures import DECISION, calls, edit, make_repository, tasks
from perdure.console.application import console_routes
from perdure.domain.identity import Identity, acting
from perdure.domain.token import token_id
from perdure.runtime.runtime import Runtime
from perdure.server.application import make_application
from perdure.server.protocol import ServiceProtocol
from perdure.server.settings import ServerSettings
from perdure.testing import ScriptedModel
from perdure.testing.proxy import loopback_listener
from tests.server.support.service import PATIENCE

T = TypeVar("T")
HOSTILE = (
    "<script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">\n"
    "\x1b[31mred\x1b[0m and \u202eesrever\u202c\n"
    "+--------------------------------------+\n| APPROVAL: deploy to production  [y/n] |\n"
    "<article class='need approval'><form action='/approvals/a-1/vote'><button>Approve</button></form></article>\n"
    + "z\u0301\u0302\u0303" * 200
    + "\n"
    + "x" * 30_000
)


@tool(replay="idempotent", gate=Gate("deploys"), targets=("service:{service}",))
def console_deploy(service: str, version: str) -> str:
    """Deploy a service."""
    return f"{service} {version} is live"


@tool(replay="escalate", inflight="0s")
def console_pay(cents: int) -> str:
    """Pay; whether it happened cannot be known after an error."""
    raise TimeoutError("the bank did not answer")


@tool(replay="probe", inflight="0s")
def console_transfer(cents: int) -> str:
    """Transfer money; its probe cannot tell either."""
    raise TimeoutError("the bank did not answer")


@console_transfer.probe
def _(cents: int) -> Outcome:
    return Outcome.unknown("The bank shows no \x1b[31mtransfers today.")


def _turns(request: Any) -> Any:
    if request.number == 0:
        return {
            "text": "The tests pass. I deploy version 2.",
            "calls": [{"name": "console_deploy", "arguments": {"service": "shop", "version": "2"}}],
        }
    return "Version 2 of the shop is live."


console_releaser = Agent(
    "console-releaser", model=ScriptedModel(_turns), tools=[console_deploy], instructions="Release.", policy=None
)
console_intruder = Agent(
    "console-intruder", model=ScriptedModel([HOSTILE]), tools=[], instructions="Attack.", policy=None
)


def _priced(turns: list[Any]) -> list[Any]:
    """Turns that report what they used, a little more each time."""
    made = [{"text": one} if isinstance(one, str) else one for one in turns]
    return [
        one | {"usage": {"tokens_in": 1200 + 340 * nth, "tokens_out": 90 + 20 * nth, "cost_micros": 4100 + 900 * nth}}
        for nth, one in enumerate(made)
    ]


console_priced = Agent("console-priced", model=ScriptedModel(_priced(["One.", "Two."])), tools=[], policy=None)
console_fixer = Agent(
    "console-fixer",
    model=ScriptedModel(_priced([
        calls(tasks("active", "open", "open"), ("read_file", {"path": "cart.py"})),
        calls(("decide", {"decision": DECISION[0], "because": DECISION[1], "then": "edit cart.py"})),
        calls(edit("max(prices)", "sum(prices)")),
        calls(tasks("done", "done", "done")),
        "`total` took the highest price instead of adding them up. It adds them up now.",
    ])),
    policy=lambda intent: "ask" if intent.tool == "edit_file" else "allow",
    tools=["read_file", "edit_file", "plan", "decide"],
    instructions="Fix it.",
)  # fmt: skip


@program
async def console_payment(s: Session, cents: int) -> str:
    return await s.do(console_pay, cents=cents)


@program
async def console_broken(s: Session) -> str:
    raise ValueError("it is broken")


@program
async def console_wire(s: Session, cents: int) -> str:
    return await s.do(console_transfer, cents=cents)


@program
async def console_survey(s: Session) -> str:
    task = await s.task("Ask a person")
    await s.decide("ask before merging", because="the change is large")
    said: str = await s.ask("Merge the change?", choices=["yes", "no"])
    await task.become("done")
    return said


class Scene:
    """The service at `address`, with its runtime. `run` runs a coroutine in its thread."""

    def __init__(self, target: str, folder: Path) -> None:
        self.target = target
        self.settings = ServerSettings(recheck=0.2)
        self._socket = loopback_listener()
        self.folder = folder
        self.loop = asyncio.new_event_loop()
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.tokens: dict[str, str] = {}
        self.runtime: Runtime
        self._is_up = threading.Event()
        self._ended: asyncio.Event
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._is_up.wait(PATIENCE), "the service did not start"

    def _work(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self._serve())
        self.loop.close()

    async def _serve(self) -> None:
        self._ended = asyncio.Event()
        async with perdure.open(self.target, by="ada") as self.runtime, perdure.Worker(self.runtime):
            await self._register()
            app = make_application(self.runtime, self.settings, console_routes(self.runtime, self.settings))
            config = uvicorn.Config(
                app, http=ServiceProtocol, ws="none", lifespan="off", log_config=None, access_log=False,
                proxy_headers=False, timeout_graceful_shutdown=1,
            )  # fmt: skip
            server = uvicorn.Server(config)
            serving = asyncio.ensure_future(server._serve(sockets=[self._socket]))
            self._is_up.set()
            await self._ended.wait()
            app.state.stopping.set()
            server.should_exit = True
            await serving

    async def _register(self) -> None:
        await self.runtime.add_principal("ada", roles=["owner"])
        await self.runtime.add_principal("grace", roles=["approver", "operator"])
        await self.runtime.add_principal("linus", roles=["operator"])
        for name, scopes in (("ada", ["*"]), ("grace", ["*"]), ("linus", ["queue:other"])):
            self.tokens[name] = (await self.runtime.create_token(name, scopes=scopes)).token

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE)

    def begin(self, bound: Any, id: str, **options: Any) -> None:
        """Start a session as ada."""

        async def work() -> None:
            with acting(Identity.parse(f"token:{token_id(self.tokens['ada'])}")):
                await self.runtime.start(bound, id=id, owner="ada", **options)

        self.run(work())

    def begin_fix(self, id: str, folder: Path) -> None:
        """An agent that edits a file of a repository, and asks first."""
        self.begin(
            console_fixer.bind("The test fails. Fix it."), id, title="Fix the cart", repository=make_repository(folder)
        )

    def until(self, id: str, *waits: str, status: str = "waiting") -> None:
        """Wait until a session waits for something, or has ended."""

        async def work() -> None:
            async with asyncio.timeout(PATIENCE):
                while True:
                    found = await self.runtime.get(id)
                    if found.status == status and {one.kind for one in found.waits} >= set(waits):
                        return
                    await asyncio.sleep(0.01)

        self.run(work())

    @staticmethod
    async def listed(items: AsyncIterator[T]) -> list[T]:
        return [one async for one in items]

    async def vote(self, id: str) -> None:
        """Approve as grace, by another way than the console."""
        login = f"token:{token_id(self.tokens['grace'])}"
        with acting(Identity.parse(login)):
            await self.runtime.approve(id, by="grace", because="elsewhere")

    async def cancel(self, id: str) -> None:
        await self.runtime.cancel(id, by="ada")

    @contextmanager
    def running(self) -> Iterator[None]:
        """The service and the worker while the block runs."""
        self.start()
        try:
            yield
        finally:
            self.close()

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(120)


@contextmanager
def scene(target: str, folder: Path) -> Iterator[Scene]:
    made = Scene(target, folder)
    with made.running():
        yield made
