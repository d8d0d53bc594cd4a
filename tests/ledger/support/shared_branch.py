"""Two sessions that push to one branch. A push is two requests, and posts `over` when another push is under way."""

from __future__ import annotations

import asyncio
from typing import Any

from perdure import Call, Session, program, tool
from perdure.domain.lease import UNTIL_SETTLED
from perdure.store.moves import lease
from perdure.testing import SinkClient

SHORT = "20ms"


def under_way(who: int) -> list[Any]:
    """Pushes of others that have begun and not ended, as the outside sees it."""
    bodies = [kept["body"] for kept in SinkClient.here().kept()]
    ended = [body["end"] for body in bodies if "end" in body]
    return sorted(body["begin"] for body in bodies if body.get("begin", who) not in (who, *ended))


@tool(replay="idempotent", inflight=SHORT, retry=9, leases=("branch:{branch}",))
def push(call: Call, branch: str, who: int) -> int:
    sink = SinkClient.here()
    sink.post(f"{call.key}-begin", {"begin": who})
    if others := under_way(who):
        sink.post(None, {"over": others})
    sink.post(f"{call.key}-end", {"end": who})
    return who


@program
async def pusher(s: Session, branch: str, who: int) -> int:
    return await s.do(push, branch=branch, who=who)


@program
async def pushers(s: Session, n: int) -> list[int]:
    children = [s.child(pusher.bind(branch=s.id, who=who)) for who in range(n)]
    return list(await asyncio.gather(*children))


def ignore_held_leases() -> None:
    """Planted bug: a lease that must be held until its effect is settled is not respected."""
    real = lease._refuse_held

    def refuse_held(tx: Any, now: Any) -> None:
        if now.until == UNTIL_SETTLED:
            return
        real(tx, now)

    lease._refuse_held = refuse_held
