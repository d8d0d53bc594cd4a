"""The program of a session that is watched through a service."""

from __future__ import annotations

from perdure import Gate, Session, program, tool


@tool(replay="escalate", gate=Gate("watched-gate", requester_may_decide=True))
def watched_merge(pr: int) -> int:
    return pr


@program
async def watched_review(s: Session, pr: int) -> int:
    return await s.do(watched_merge, pr=pr)
