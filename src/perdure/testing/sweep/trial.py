"""One life of a swept program: it runs, is killed or stopped at its k-th moment, or runs to the end and is looked at.

Everything here happens in a process that was forked for it and opens the store only then. The person whom a program
asks lives here too: approves, answers with the first choice, and says of a doubt what the sink shows, not before
whatever may be in flight has landed.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from perdure import faults
from perdure.clock import SECOND
from perdure.domain.wait import Wait, WaitKind
from perdure.errors import ConfigError, IllegalMove, LeaseHeld, LeaseLost, SessionWaiting
from perdure.runtime.definitions.program import PROGRAMS, Bound, program
from perdure.runtime.definitions.tool import TOOLS, Call, Outcome, tool
from perdure.runtime.runtime import Runtime, SessionView, run
from perdure.runtime.runtime import open as open_runtime
from perdure.runtime.session import Session
from perdure.store.statements import load
from perdure.testing.proxy import wait_until
from perdure.testing.sink import WHERE, SinkClient
from perdure.testing.sweep.fork_process import Voice, find_task
from perdure.testing.sweep.ledger_audit import audit

CONNECTIONS = 2  # a life is short, and connecting is what takes its time
Person = Callable[[Runtime, Wait, SinkClient], Awaitable[None]]
Script = Callable[[Runtime, Bound[Any], str, Person], Awaitable[list[SessionView]]]


class Plan(msgspec.Struct, kw_only=True):
    """What a life is told: where, what, and at which moment it ends. Functions are named `module:function`."""

    target: str
    session: str
    program: str
    arguments: dict[str, Any]
    sink: str
    template: str | None = None
    environment: dict[str, str] = {}
    setup: str | None = None
    person: str | None = None
    script: str | None = None
    lease: str = "15s"
    fatal: int = 0
    how: str = "kill"
    times: int = 1


class Countdown:
    """Counts the moments of this process, in whichever thread reaches them, and makes one of them its last."""

    def __init__(self, voice: Voice, plan: Plan) -> None:
        self.moments: list[str] = []
        self.counting = False
        self._voice = voice
        self._plan = plan
        self._lock = threading.Lock()

    def moment(self, label: str) -> None:
        if not self.counting:
            return
        with self._lock:
            self.moments.append(label)
            if len(self.moments) != self._plan.fatal:
                return
            if self._plan.how == "kill":
                self._voice.say(last=label)
                os.kill(os.getpid(), signal.SIGKILL)
            self._voice.say(stopped=label)
            os.kill(os.getpid(), signal.SIGSTOP)


def live(voice: Voice, **told: Any) -> dict[str, Any]:
    """Run the program, `times` times over; then look at what the ledger holds."""
    plan = msgspec.convert(told, Plan)
    if plan.template is not None:
        shutil.copytree(plan.template, Path(plan.target).parent, dirs_exist_ok=True)
    os.environ.update(plan.environment | {WHERE: plan.sink})
    if plan.setup is not None:
        find_task(plan.setup)()
    countdown = Countdown(voice, plan)
    faults.arm(countdown.moment)
    ends: list[Any] = []
    ledger: dict[str, Any] = {}
    try:
        for number in range(plan.times):
            asyncio.run(_run(plan, countdown, ends, ledger if number == plan.times - 1 else None))
    finally:
        faults.disarm()
    return {"moments": countdown.moments, "ends": ends, "ledger": ledger}


async def _run(plan: Plan, countdown: Countdown, ends: list[Any], ledger: dict[str, Any] | None) -> None:
    bound = Bound(PROGRAMS[plan.program], plan.arguments)
    script: Script = run_program if plan.script is None else find_task(plan.script)
    person: Person = answer if plan.person is None else find_task(plan.person)
    async with open_runtime(plan.target, lease=plan.lease, connections=CONNECTIONS) as runtime:
        countdown.counting = True
        try:
            views = await script(runtime, bound, plan.session, person)
        except (LeaseHeld, LeaseLost) as refused:
            ends.append({"refused": refused.code, "message": refused.message, "holder": refused.details.get("holder")})
            return
        ends.append([[view.status, view.result, view.error] for view in views])
        countdown.counting = ledger is None
        if ledger is not None:
            ledger.update(await runtime.store.read(audit, [view.uid for view in views]))


async def run_program(runtime: Runtime, bound: Bound[Any], name: str, person: Person) -> list[SessionView]:
    """Start or continue a session, and see it through."""
    session = await runtime.start(bound, id=name)
    return [await see_through(runtime, session.id, person)]


async def see_through(runtime: Runtime, name: str, person: Person, *, rounds: int = 50) -> SessionView:
    """Run a session to its end, with somebody there who answers what it asks."""
    sink = SinkClient.here()
    for _ in range(rounds):
        try:
            return await runtime.complete(name)
        except SessionWaiting as waiting:
            for wait in waiting.details["waits"]:
                await _attend(runtime, wait, person, sink)
    return await runtime.get(name)


async def _attend(runtime: Runtime, wait: Wait, person: Person, sink: SinkClient) -> None:
    if wait.kind == WaitKind.CHILD and wait.ref is not None:
        for one in (await runtime.get(wait.ref)).waits:
            await _attend(runtime, one, person, sink)
        return
    try:
        await person(runtime, wait, sink)
    except IllegalMove:  # it was settled while we looked
        return


async def answer(runtime: Runtime, wait: Wait, sink: SinkClient) -> None:
    """What a careful and truthful person does about one thing that a session waits for."""
    match wait.kind:
        case WaitKind.APPROVAL:
            await runtime.approve(wait.id, by="person", because="it looks right")
        case WaitKind.INPUT:
            choices = (wait.detail or {}).get("choices")
            await runtime.answer(wait.id, choices[0] if choices else "yes", by="person")
        case WaitKind.DOUBT:
            await _settle(runtime, wait, sink)
        case WaitKind.PAUSED:
            await runtime.resume((await runtime.get(wait.session_uid)).id, by="person")
        case _:
            raise ConfigError(f"A sweep has nobody who could give what {wait.id} waits for: {wait.kind}.")


async def _settle(runtime: Runtime, wait: Wait, sink: SinkClient) -> None:
    (effect,) = [one async for one in runtime.effects(session=wait.session_uid) if one.id == wait.ref]
    tool = TOOLS[effect.tool]
    await asyncio.sleep(tool.inflight / SECOND)
    kept = await asyncio.to_thread(sink.kept)
    found = [one for one in kept if (one["key"] or one["body"]) in (effect.idempotency_key, effect.intent)]
    verdict = "happened" if found else "absent"
    await asyncio.to_thread(lambda: sink.note(verdict=verdict, effect=effect.id, intent=effect.intent))
    result = _receipt(effect.tool, found[0]) if found else None
    await runtime.settle(effect.id, verdict, by="person", because="I looked at the sink", result=result)


def _receipt(name: str, kept: dict[str, Any]) -> Any:
    """What the tool would have returned: the sink's answer, its id, or nothing."""
    for guess in ({"id": kept["id"]}, kept["id"], None):
        try:
            TOOLS[name].shape.decode_result(msgspec.json.encode(guess).decode())
        except ConfigError:
            continue
        return guess
    raise ConfigError(f"Nobody here knows what {name} would have returned.", hint="Give the sweep a person= who does.")


def make_store(_: Voice, *, target: str) -> None:
    """An empty store, closed in order."""
    open_runtime(target).close()


def rehearse() -> None:
    """Run something once or twice in the server, and end every thread: code that has run is not warmed in each life."""
    known = set(TOOLS), set(PROGRAMS)

    @tool(replay="probe", inflight="0s")
    def rehearsed_tool(call: Call, n: int) -> int:
        if call.attempt == 1 and n:
            raise RuntimeError
        return n

    @rehearsed_tool.probe
    def _(call: Call, n: int) -> Outcome:
        return Outcome.unknown() if call.attempt > n else Outcome.absent()

    @program
    async def rehearsed_program(s: Session, n: int) -> int:
        return await s.do(rehearsed_tool, n=0) + await s.do(rehearsed_tool, n=n)

    with tempfile.TemporaryDirectory() as folder:
        for name in ("one", "two", "two"):
            run(rehearsed_program.bind(n=3), id=name, store=Path(folder, "perdure.db"))
    for name in TOOLS.keys() - known[0]:
        del TOOLS[name]
    for name in PROGRAMS.keys() - known[1]:
        del PROGRAMS[name]
    load("postgres")
    wait_until(lambda: not _busy(), "the rehearsal is over")


def _busy() -> list[str]:
    """The threads that a fork would tear from their work. Idle hands have none."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name not in ("MainThread", "perdure-act")]
