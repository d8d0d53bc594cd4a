"""Programs and an agent for the control soak: effects at the sink, sleeps, questions, children, a scripted model."""

from __future__ import annotations

import random
import time
from typing import Any

from perdure import Agent, Call, Outcome, Session, program, tool
from perdure.testing import ScriptedModel, SinkClient

INFLIGHT = "2s"  # a request of a killed process is stored within this time, on a busy machine too
CHILD = 1_000_000  # the numbers of children are above those of the sessions
Receipt = dict[str, str]


@tool(replay="idempotent", inflight=INFLIGHT, retry=100)
def soak_charge(call: Call, n: int) -> Receipt:
    """Charge a number."""
    return _post(call.key, {"charge": n})


@tool(replay="probe", inflight=INFLIGHT, retry=100)
def soak_comment(call: Call, n: int) -> Receipt:
    """Comment on a number. The sink stores it again if it is posted again."""
    return _post(None, {"comment": n}, call.key)


@soak_comment.probe
def _(call: Call, n: int) -> Outcome:
    found = SinkClient.here().find(key=call.key)
    return Outcome.happened({"id": found[0]["id"]}) if found else Outcome.absent()


def _post(key: str | None, body: dict[str, int], marker: str | None = None) -> Receipt:
    """Post a body, with time before and after it in which the process may be killed."""
    time.sleep(random.uniform(0, 0.03))
    receipt: Receipt = SinkClient.here().post(key, body, marker=marker)
    time.sleep(random.uniform(0, 0.03))
    return receipt


@program
async def soak_effects(s: Session, n: int) -> int:
    await s.do(soak_charge, n=n)
    await s.do(soak_comment, n=n)
    return n


@program
async def soak_charges(s: Session, n: int, count: int) -> int:
    for number in range(count):
        await s.do(soak_charge, n=1000 * n + number)
    return n


@program
async def soak_sleep(s: Session, n: int) -> int:
    await s.do(soak_charge, n=n)
    await s.sleep("300ms")
    await s.do(soak_comment, n=n)
    return n


@program
async def soak_question(s: Session, n: int) -> int:
    await s.do(soak_charge, n=n)
    await s.ask(f"Continue {n}?", choices=["yes"])
    await s.do(soak_comment, n=n)
    return n


@program
async def soak_parent(s: Session, n: int) -> int:
    await s.child(soak_effects.bind(n + CHILD))
    await s.do(soak_comment, n=n)
    return n


def _reply(request: Any) -> dict[str, Any]:
    if request.number > 0:
        return {"text": "Done."}
    number = int(str(request.turns[0].text).split()[-1])
    return {"text": "I charge it.", "calls": [{"name": "soak_charge", "arguments": {"n": number}}]}


soak_agent = Agent("soak_agent", model=ScriptedModel(_reply), instructions="Charge the number.", tools=[soak_charge])

# What each kind of session leaves at the sink.
KINDS: dict[str, Any] = {
    "effects": soak_effects.bind,
    "sleep": soak_sleep.bind,
    "question": soak_question.bind,
    "parent": soak_parent.bind,
    "agent": lambda n: soak_agent.bind(f"Charge {n}", once=True),
}


def expected(kind: str, n: int) -> list[dict[str, int]]:
    """What a session of a kind leaves at the sink, exactly once each."""
    if kind == "agent":
        return [{"charge": n}]
    if kind == "parent":
        return [{"charge": n + CHILD}, {"comment": n + CHILD}, {"comment": n}]
    return [{"charge": n}, {"comment": n}]
