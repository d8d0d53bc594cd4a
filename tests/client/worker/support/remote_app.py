"""What workers run in these tests: effects of every rule against the sink, and an agent that uses one."""

from __future__ import annotations

from typing import Any

from perdure import Agent, Call, Outcome, Session, program, tool
from perdure.agent.model import Request
from perdure.testing import ScriptedModel, SinkClient

SOON: Any = {"inflight": "100ms", "retry": 5}


@tool(replay="idempotent", **SOON)
def remote_idempotent(call: Call, page: str) -> str:
    SinkClient.here().post(call.key, {"idempotent": page})
    return page


@tool(replay="probe", **SOON)
def remote_probe(call: Call, page: str) -> str:
    SinkClient.here().post(None, {"probe": page}, marker=call.key)
    return page


@remote_probe.probe
def _(call: Call, page: str) -> Outcome:
    there = SinkClient.here().find(key=call.key)
    return Outcome.happened(page) if there and there[0] else Outcome.absent()


@tool(replay="compensate", **SOON)
def remote_compensate(call: Call, page: str) -> str:
    SinkClient.here().post(None, {"compensate": page}, marker=call.key)
    return page


@remote_compensate.undo
def _(call: Call, result: str | None, page: str) -> None:
    SinkClient.here().delete(key=call.undoes)


@tool(replay="escalate")
def remote_escalate(call: Call, page: str) -> str:
    SinkClient.here().post(None, {"escalate": page}, marker=call.key)
    return page


@tool(replay="pure")
def remote_pure(page: str) -> str:
    return page


@program
async def remote_child(s: Session, page: str) -> str:
    return await s.do(remote_idempotent, page=f"{page} of the child")


@program
async def remote_work(s: Session, page: str) -> list[str]:
    found = [await s.step("first", lambda: page), await s.do(remote_idempotent, page=page)]
    await s.remember("page", {"is": page})
    plan = await s.task("Do the rest")
    found.append(await s.do(remote_probe, page=page))
    chosen = await s.decide("compensate", because="it can be undone")
    found.append(await s.do(remote_compensate, page=page))
    await chosen.settle("done")
    found += [await s.do(remote_pure, page=page), await s.do(remote_escalate, page=page)]
    found.append(await s.child(remote_child.bind(page=page), id=f"{s.id}.child"))
    await plan.become("done")
    return [*found, str(await s.recall("page")), str(len(await s.step("large", lambda: "x" * 100_000)))]


@program
async def remote_once(s: Session, page: str) -> str:
    return await s.do(remote_escalate, page=page)


@program
async def remote_question(s: Session, page: str) -> str:
    await s.sleep(seconds=0.01)
    answer: str = await s.ask(f"Release {page}?", choices=["yes", "no"])
    return answer


@program
async def remote_retry(s: Session, page: str) -> str:
    return await s.step("fails once", fails_once, page, retries=2)


FAILED: set[str] = set()


def fails_once(page: str) -> str:
    if page not in FAILED:
        FAILED.add(page)
        raise ValueError("the first time")
    return page


def turn(request: Request) -> dict[str, Any]:
    """Calls the tool once with the text of the prompt, and then answers."""
    page = request.turns[0].text
    if request.number == 0:
        return {"calls": [{"name": "remote_idempotent", "arguments": {"page": page}}]}
    return {"text": f"{page} is out."}


remote_agent = Agent("remote_agent", model=ScriptedModel(turn), tools=[remote_idempotent])
EXPECTED = ("idempotent", "probe", "compensate", "escalate")
