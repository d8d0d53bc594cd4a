"""A program with one effect, and a person who requests its undo."""

from __future__ import annotations

from perdure import Call, EffectCompensated, Outcome, Session, program, tool
from perdure.domain.wait import Wait, WaitKind
from perdure.runtime.runtime import Runtime
from perdure.testing import SinkClient


@tool(replay="probe", inflight="20ms", retry=5)
def reserve(call: Call, n: int) -> str:
    receipt: dict[str, str] = SinkClient.here().post(None, {"reserve": n}, marker=call.key)
    return receipt["id"]


@reserve.probe
def _(call: Call, n: int) -> Outcome:
    found = SinkClient.here().find(key=call.key)
    return Outcome.happened(found[0]["id"]) if found else Outcome.absent()


@reserve.undo
def _(call: Call, result: str | None, n: int) -> None:
    SinkClient.here().delete(id=result) if result else SinkClient.here().delete(key=call.undoes)


@program
async def regret(s: Session, n: int) -> str:
    try:
        await s.do(reserve, n=n)
    except EffectCompensated:
        return "undone"
    await s.ask("Keep it?", choices=["yes"])
    return "kept"


async def undo_when_asked(runtime: Runtime, wait: Wait, sink: SinkClient) -> None:
    """Asked whether to keep the effect, the person undoes it."""
    if wait.kind == WaitKind.INPUT:
        (effect,) = [one async for one in runtime.effects(session=wait.session_uid, tool="reserve")]
        await runtime.undo(effect.id, by="person", because="not that one")
