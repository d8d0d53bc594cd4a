"""The process under test: a Perdure program on any store. The replay rule follows from what the sink can do.

Two rules belong to Perdure alone: a `pure` effect looks at the sink, and a `joint` one adds a row to a table of this
program in Perdure's own database. Two configurations are planted mistakes: `wrong-rule` declares `idempotent` at a sink
that ignores keys, and `needless-question` declares `escalate` whatever the sink can do.
"""

from __future__ import annotations

import argparse
import asyncio

import perdure
from perdure.domain.wait import WaitKind
from perdure.errors import SessionWaiting
from perdure.evaluation.crash import outside, worker_arguments
from perdure.runtime.definitions.tool import Call, Outcome, Tool, tool
from perdure.runtime.runtime import Runtime
from perdure.runtime.session import Session

SESSION, TABLE = "crash", "crash_joint"
RULES = {"nothing": "escalate", "key": "idempotent", "lookup": "probe", "undo": "compensate", "pure": "pure"}
PLANTED = {"wrong-rule": "idempotent", "needless-question": "escalate"}


def declare(ability: str, configuration: str, inflight: float) -> Tool[..., int]:
    """The tool for what the sink can do."""

    if ability == "joint":
        return tool(replay="joint", retry=9)(insert)

    def happen(call: Call, n: int) -> int:
        if ability == "pure":
            outside.look(n)
        else:
            outside.post(ability, n, call.key)
        return n

    rule = PLANTED.get(configuration, RULES[ability])
    made: Tool[..., int] = tool(replay=rule, inflight=inflight, retry=9)(happen)  # type: ignore[call-overload]
    if rule == "probe":
        made.probe(look)
    if rule == "compensate":
        made.undo(take_back)
    return made


def insert(tx: perdure.Transaction, n: int) -> int:
    """The joint effect."""
    tx.execute(f"create table if not exists {TABLE} (n integer)")
    tx.execute(f"insert into {TABLE} (n) values (?)", (n,))
    return n


def look(call: Call, n: int) -> Outcome:
    """The probe."""
    return Outcome.happened(n) if outside.is_there(n, call.key) else Outcome.absent()


def take_back(call: Call, result: int | None, n: int) -> None:  # noqa: ARG001 - the signature is that of an undo
    """The undo."""
    outside.undo(n, call.undoes)


async def settle(runtime: Runtime, verdicts: dict[str, str]) -> None:
    """Record what the person said about effects in doubt."""
    async for effect in runtime.effects(session=SESSION, in_doubt=True):
        verdict = verdicts.get(str(effect.intent["n"]))
        if verdict == "happened":
            result = effect.intent["n"]
            await runtime.settle(effect.id, "happened", by="person", because="seen at the sink", result=result)
        elif verdict == "absent":
            await runtime.settle(effect.id, "absent", by="person", because="not at the sink")


async def questions(runtime: Runtime, waiting: SessionWaiting) -> list[int]:
    """The effects that a person has to judge."""
    refs = {wait.ref for wait in waiting.details["waits"] if wait.kind == WaitKind.DOUBT}
    return [effect.intent["n"] async for effect in runtime.effects(session=SESSION) if effect.id in refs]


async def work(given: argparse.Namespace) -> list[int]:
    """Run or continue the session; returns what a person is asked about."""
    act = declare(given.ability, given.configuration, given.inflight)

    @perdure.program
    async def crash_effects(s: Session, count: int) -> int:
        for n in range(1, count + 1):
            await s.do(act, n=n)
            if n == 1:
                await asyncio.to_thread(worker_arguments.pause, given, "middle")
        return count

    async with perdure.open(given.state, connections=2) as runtime:
        await runtime.start(crash_effects.bind(count=given.effects), id=SESSION)
        if given.verdicts:
            await settle(runtime, given.verdicts)
        try:
            runtime.result_of(await runtime.complete(SESSION))
        except SessionWaiting as waiting:
            return await questions(runtime, waiting)
    return []


def main() -> None:
    given = worker_arguments.parse()
    worker_arguments.pause(given, "start")
    worker_arguments.end(asyncio.run(work(given)))


if __name__ == "__main__":
    main()
