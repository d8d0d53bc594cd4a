"""A program whose tool claims to be idempotent, though its service does not know keys."""

from __future__ import annotations

from perdure import Call, Session, program, tool
from perdure.testing import SinkClient


@tool(replay="idempotent", inflight="10ms")
def greet(call: Call, name: str, time: int) -> dict[str, str]:
    receipt: dict[str, str] = SinkClient.here().post(None, {"hello": name, "time": time})
    return receipt


@program
async def greet_twice(s: Session, name: str) -> list[str]:
    return [(await s.do(greet, name=name, time=time))["id"] for time in (1, 2)]
