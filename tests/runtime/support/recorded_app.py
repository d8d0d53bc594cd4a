"""A program for a crash sweep: recorded values, declared types, a step with retries, and calls side by side."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from uuid import UUID

from pydantic import BaseModel

from perdure import Call, Outcome, Session, StepFailed, program, tool
from perdure.testing import SinkClient


class Note(BaseModel):
    id: UUID
    at: datetime
    share: float
    number: int


@tool(replay="probe", inflight="20ms", retry=5)
def post_note(ctx: Call, note: Note, files: dict[int, Path]) -> dict[str, str]:
    receipt: dict[str, str] = SinkClient.here().post(None, {"place": [*files]}, marker=ctx.key)
    return receipt


@post_note.probe
def look(ctx: Call, note: Note, files: dict[int, Path]) -> Outcome:
    found = SinkClient.here().find(key=ctx.key)
    return Outcome.happened({"id": found[0]["id"]}) if found else Outcome.absent()


def fail(number: int) -> int:
    raise OSError(f"{number} is refused")


@program
async def post_notes(s: Session) -> int:
    number = 2**60
    try:
        await s.step("fail", fail, number, retries=2, backoff=0)
    except StepFailed:
        number += 1

    async def one(place: int) -> int:
        note = Note(id=await s.uuid(), at=await s.now(), share=await s.random(), number=number + place)
        await s.do(post_note, note, {place: Path("a")})
        return place

    return sum(await s.gather(one(1), one(2)))
