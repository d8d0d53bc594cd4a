"""One process of a trial: it runs the program, is killed or stopped at a kill point, or runs to the end for the audit.

Everything here happens in a process that was forked for it and opens the store only then. The person whom a program
asks is simulated here too: it approves, answers with the first choice, and settles a doubt by what the sink shows,
after requests that may be in flight have landed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from perdure import faults
from perdure.clock import SECOND
from perdure.domain.literals import VerdictWord
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
from perdure.testing.sweep.fork_process import Channel, find_task
from perdure.testing.sweep.ledger_audit import audit

CONNECTIONS = 2  # the process lives briefly, and connecting is what takes its time
Person = Callable[[Runtime, Wait, SinkClient], Awaitable[None]]
Script = Callable[[Runtime, Bound[Any], str, Person], Awaitable[list[SessionView]]]


class ProcessSpec(msgspec.Struct, kw_only=True):
    """What a process of a trial is to do: where, what, and at which kill point it ends. Functions are `module:name`."""

    target: str
    session: str
    program: str
    arguments: dict[str, Any]
    sink: str
    environment: dict[str, str] = {}
    setup: str | None = None
    person: str | None = None
    script: str | None = None
    lease: str = "15s"
    fatal: int = 0
    how: str = "kill"
    times: int = 1


class KillPointCounter:
    """Counts the kill points of this process, whichever thread reaches them, and kills or stops the process at one.

    Without a fatal point it only counts. Nothing is counted until `counting` is set.
    """

    def __init__(self, channel: Channel, fatal: int, how: str = "kill") -> None:
        self.moments: list[str] = []
        self.counting = False
        self._channel = channel
        self._fatal = fatal
        self._how = how
        self._lock = threading.Lock()

    def reach(self, label: str) -> None:
        if not self.counting:
            return
        with self._lock:
            self.moments.append(label)
            if len(self.moments) != self._fatal:
                return
            if self._how == "kill":
                self._channel.send(last=label)
                os.kill(os.getpid(), signal.SIGKILL)
            self._channel.send(stopped=label)
            os.kill(os.getpid(), signal.SIGSTOP)


def run_process(channel: Channel, **arguments: Any) -> dict[str, Any]:
    """Run the program, `times` times over; then audit its ledger."""
    spec = msgspec.convert(arguments, ProcessSpec)
    os.environ.update(spec.environment | {WHERE: spec.sink})
    if spec.setup is not None:
        find_task(spec.setup)()
    counter = KillPointCounter(channel, spec.fatal, spec.how)
    faults.arm(counter.reach)
    ends: list[Any] = []
    ledger: dict[str, Any] = {}
    try:
        for number in range(spec.times):
            asyncio.run(_run(spec, counter, ends, ledger if number == spec.times - 1 else None))
    finally:
        faults.disarm()
    return {"moments": counter.moments, "ends": ends, "ledger": ledger}


async def _run(spec: ProcessSpec, counter: KillPointCounter, ends: list[Any], ledger: dict[str, Any] | None) -> None:
    bound = Bound(PROGRAMS[spec.program], spec.arguments)
    script: Script = run_program if spec.script is None else find_task(spec.script)
    person: Person = answer if spec.person is None else find_task(spec.person)
    async with open_runtime(spec.target, lease=spec.lease, connections=CONNECTIONS) as runtime:
        counter.counting = True
        try:
            views = await script(runtime, bound, spec.session, person)
        except (LeaseHeld, LeaseLost) as refused:
            ends.append({"refused": refused.code, "message": refused.message, "holder": refused.details.get("holder")})
            return
        ends.append([[view.status, view.result, view.error] for view in views])
        counter.counting = ledger is None
        if ledger is not None:
            ledger.update(await runtime.store.read(audit, [view.uid for view in views]))


async def run_program(runtime: Runtime, bound: Bound[Any], name: str, person: Person) -> list[SessionView]:
    """Start or continue a session, and run it to its end."""
    session = await runtime.start(bound, id=name)
    return [await run_to_end(runtime, session.id, person)]


async def run_to_end(runtime: Runtime, name: str, person: Person, *, rounds: int = 50) -> SessionView:
    """Run a session to its end; `person` answers its questions, also those with a time limit."""
    sink, seen = SinkClient.here(), set[str]()
    for _ in range(rounds):
        try:
            return await runtime.driver.complete_while(name, lambda wait: wait.id in seen)
        except SessionWaiting as waiting:
            for wait in waiting.details["waits"]:
                await _respond(runtime, wait, person, sink, seen)
    return await runtime.get(name)


async def _respond(runtime: Runtime, wait: Wait, person: Person, sink: SinkClient, seen: set[str]) -> None:
    seen.add(wait.id)
    if wait.kind == WaitKind.CHILD and wait.ref is not None:
        for one in (await runtime.get(wait.ref)).waits:
            await _respond(runtime, one, person, sink, seen)
        return
    try:
        await person(runtime, wait, sink)
    except IllegalMove:  # it was settled in the meantime
        return


async def answer(runtime: Runtime, wait: Wait, sink: SinkClient) -> None:
    """Answer one wait of a session as a careful and truthful person does."""
    match wait.kind:
        case WaitKind.APPROVAL:
            await runtime.approve(wait.id, by="person", because="it looks right")
        case WaitKind.INPUT if (wait.detail or {}).get("receive"):
            if wait.due_at is None:
                raise ConfigError("A sweep cannot send messages.", hint="Give a `person` that sends them.")
        case WaitKind.INPUT:
            choices = (wait.detail or {}).get("choices")
            await runtime.answer(wait.id, choices[0] if choices else "yes", by="person")
        case WaitKind.DOUBT:
            await _settle(runtime, wait, sink)
        case WaitKind.PAUSED:
            await runtime.resume((await runtime.get(wait.session_uid)).id, by="person")
        case _:
            raise ConfigError(f"A sweep cannot resolve {wait.id}: it waits for {wait.kind}.")


async def _settle(runtime: Runtime, wait: Wait, sink: SinkClient) -> None:
    (effect,) = [one async for one in runtime.effects(session=wait.session_uid) if one.id == wait.ref]
    tool = TOOLS[effect.tool]
    await asyncio.sleep(tool.inflight / SECOND)
    kept = await asyncio.to_thread(sink.kept)
    found = [one for one in kept if (one["key"] or one["body"]) in (effect.idempotency_key, effect.intent)]
    verdict: VerdictWord = "happened" if found else "absent"
    await asyncio.to_thread(lambda: sink.note(verdict=verdict, effect=effect.id, intent=effect.intent))
    result = _receipt(effect.tool, found[0]) if found else None
    await runtime.settle(effect.id, verdict, by="person", because="seen at the sink", result=result)


def _receipt(name: str, kept: dict[str, Any]) -> Any:
    """What the tool would have returned: the answer of the sink, its id, or nothing."""
    for guess in ({"id": kept["id"]}, kept["id"], None):
        try:
            TOOLS[name].signature.decode_result(msgspec.json.encode(guess).decode())
        except ConfigError:
            continue
        return guess
    raise ConfigError(f"The result of {name} cannot be derived from the sink.", hint="Pass a person= that settles it.")


def make_store(_: Channel, *, target: str) -> None:
    """Create an empty store and close it."""
    open_runtime(target).close()


def rehearse() -> None:
    """Run a program a few times before the fork and end every thread, so that each process starts with warm code."""
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
    """The threads that a fork would interrupt. Idle threads of the pool have no work."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name not in ("MainThread", "perdure-act")]
