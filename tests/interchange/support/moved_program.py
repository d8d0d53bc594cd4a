"""A program with a record in every table, whose effects go to a sink."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from perdure import Call, Gate, Outcome, Session, program, tool
from perdure.testing import SinkClient

Receipt = dict[str, str]
LARGE = "a long story\n" * 1_000
DIE = "TRAVELLER_DIES"


def _post(call: Call, body: dict[str, str]) -> Receipt:
    receipt: Receipt = SinkClient.here().post(None, body, marker=call.key)
    if "comment" in body and os.environ.get(DIE) == body["comment"]:  # stored by the sink, and not recorded
        os.kill(os.getpid(), signal.SIGKILL)
    return receipt


def _find(call: Call) -> Outcome:
    found = SinkClient.here().find(key=call.key)
    return Outcome.happened({"id": found[0]["id"]}, reference=found[0]["id"]) if found else Outcome.absent()


@tool(replay="probe", inflight="10ms")
def travel_comment(call: Call, text: str) -> Receipt:
    return _post(call, {"comment": text})


@travel_comment.probe
def _(call: Call, text: str) -> Outcome:
    return _find(call)


@tool(replay="probe", inflight="10ms", gate=Gate("merge"))
def travel_merge(call: Call, pr: int) -> Receipt:
    return _post(call, {"merge": str(pr)})


@travel_merge.probe
def _(call: Call, pr: int) -> Outcome:
    return _find(call)


@tool(replay="compensate", inflight="0s", retry=3)
def travel_book(call: Call, text: str) -> Receipt:
    if call.attempt == 1 and text == "twice" and not Path(os.environ["TRAVELLER_ONCE"]).exists():
        Path(os.environ["TRAVELLER_ONCE"]).touch()
        _post(call, {"book": text})
        raise RuntimeError("the answer is lost")
    return _post(call, {"book": text})


@travel_book.undo
def _(call: Call, result: Receipt | None, text: str) -> None:
    SinkClient.here().delete(key=call.undoes)


@tool(leases=("branch:{name}",))
def travel_push(call: Call, name: str) -> None:
    raise RuntimeError("the answer is lost")


@tool(replay="pure")
def travel_look(call: Call, at: str) -> str:
    return f"{at} looks good"


@program
async def traveller(s: Session, pr: int = 7, book: str = "once") -> list[str]:
    plan = await s.task("review", id="review")
    await s.task("read the diff", id="read", parent="review")
    choice = await s.decide("comment", because="only style", then="travel_comment")
    notes = await s.step("read", lambda: "only \x1b[31mstyle\x1b[0m")
    await s.remember("style", notes)
    await s.do(travel_look, at="it")
    digest = await s.save(LARGE, kind="text/plain")
    first = await s.do(travel_comment, text=notes)
    second = await s.do(travel_book, text=book)
    await choice.settle("commented")
    await plan.become("active")
    merged = await s.do(travel_merge, pr=pr)
    answer = await s.ask("Announce it?", choices=["yes", "no"])
    last = await s.do(travel_comment, text=f"{await s.recall('style')}: {answer}")
    return [digest[:8], first["id"], second["id"], merged["id"], last["id"], answer]


@program
async def travel_talk(s: Session) -> str:
    return f"hello {await s.ask('Name?')}"


@program
async def travel_parent(s: Session) -> str:
    return await s.child(travel_talk.bind(), id=f"{s.id}-kid")


@program
async def travel_pusher(s: Session) -> None:
    await s.do(travel_push, name="main")
