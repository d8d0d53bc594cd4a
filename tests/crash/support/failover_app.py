"""A program whose acts must not be repeated, for workers that outlive their database server."""

from __future__ import annotations

from perdure import Session, program, tool
from perdure.testing import SinkClient

ACTS = 4


@tool(replay="escalate", inflight="10ms")
def post_once(session: str, number: int) -> None:
    SinkClient.here().post(None, {"of": session, "number": number})


@program
async def posts_across_failover(s: Session) -> int:
    for number in range(ACTS):
        await s.do(post_once, session=s.id, number=number)
    return ACTS
