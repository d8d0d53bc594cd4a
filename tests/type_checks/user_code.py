# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""Code as a user writes it. mypy (strict) and pyright (strict) find nothing in it but the marked mistakes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, assert_type
from uuid import UUID

import perdure
from perdure import (
    Agent,
    Approval,
    ApprovalDecision,
    Call,
    Effect,
    Event,
    Gate,
    Intent,
    Model,
    Outcome,
    PolicyAnswer,
    Session,
    SessionView,
    Transaction,
    program,
    tool,
)
from perdure.testing import ManualClock, ScriptedModel


@dataclass
class Order:
    item: str
    count: int


@tool(replay="probe", inflight="20s", timeout="60s", retry=3, targets=("pr:{pr}",))
def post_comment(call: Call, pr: int, body: str) -> dict[str, int]:
    call.heartbeat()
    call.reference(f"pr-{pr}")
    return {"id": len(body)}


@post_comment.probe
def find_comment(call: Call, pr: int, body: str) -> Outcome:
    return Outcome.happened({"id": 1}, reference="r") if call.key else Outcome.absent()


@post_comment.undo
def remove_comment(call: Call, result: dict[str, int] | None, pr: int, body: str) -> None: ...


@tool(replay="idempotent", gate=Gate("merge", quorum=2))
async def merge(pr: int) -> str:
    return f"merged {pr}"


@tool(replay="joint")
def debit(tx: Transaction, account: str, cents: int) -> int:
    rows = tx.execute("update account set cents = cents - ? where name = ?", (cents, account))
    return len(rows)


@tool
def read_page(url: str) -> bytes:
    return url.encode()


def declare_wrongly() -> None:
    tool(replay="always")  # type: ignore[call-overload]


def read_diff(pr: int) -> str:
    return f"diff of {pr}"


async def count_words(text: str) -> int:
    return len(text.split())


@program
async def review(s: Session, pr: int) -> str:
    diff: str = await s.step("read", read_diff, pr)
    words: int = await s.step("count", count_words, diff)
    page: str = await s.step("retry", read_diff, pr, retries=3, backoff="1s")
    receipt: dict[str, int] = await s.do(post_comment, pr=pr, body=diff)
    said: str = await s.do(merge, pr)
    left: int = await s.do(debit, "ada", 100)
    raw: bytes = await s.do(read_page.keyed("a"), "https://example.org")
    order: Order = await s.receive(Order, timeout="1h")
    anything: Any = await s.receive()
    decision: ApprovalDecision = await s.approve("Deploy", detail={"words": words}, quorum=2, timeout="24h")
    if decision:
        said += page
    at: datetime = await s.now()
    id: UUID = await s.uuid()
    share: float = await s.random()
    one, two = await s.gather(s.do(merge, 1), s.step("read again", read_diff, 2))
    assert_type(await s.gather(s.now(), s.random()), tuple[datetime, float])
    answer: Any = await s.ask("Merge now?", choices=["yes", "no"], timeout="2h")
    await s.sleep(hours=8)
    chosen = await s.decide("comment", because="only style", then="post_comment")
    await chosen.settle("commented")
    task = await s.task("write docs", priority=1)
    await task.become("done", note="merged")
    await s.remember("key", {"a": 1}, stale_after="1d")
    digest: str = await s.save(raw, kind="text/html")
    async with s.scope("left"):
        result: str = await s.child(review.bind(pr=pr + 1))
    await s.do(post_comment, pr="7", body="x")  # type: ignore[call-overload]
    await task.become("finished")  # type: ignore[arg-type]
    return " ".join(map(str, (receipt, left, order.item, anything, at, id, share, one, two, answer, digest, result)))


def policy(intent: Intent) -> PolicyAnswer:
    if intent.tool == "merge" and intent.replay == "idempotent":
        return "ask"
    return "allow"


def vague_policy(intent: Intent) -> str:
    return intent.tool


def run_here() -> str:
    return perdure.run(review.bind(pr=7), id="review-7", store="memory:", policy=policy)


async def operate() -> None:
    clock = ManualClock()
    async with perdure.open("memory:", policy=policy, by="ada", clock=clock) as rt:
        view: SessionView = await rt.start(review.bind(pr=7), id="review-7", owner="ada", repository=".")
        view = await rt.complete(view.id)
        print(view.status, [wait.kind for wait in view.waits], view.result)
        await rt.send(view.id, Order("pens", 2), message_id="m-1", mode="steer")
        await rt.send(view.id, "hello", mode="shout")  # type: ignore[arg-type]
        await rt.settle("e-1", "happened", by="ada", because="seen", result={"id": 1})
        await rt.settle("e-1", "perhaps", by="ada", because="seen")  # type: ignore[arg-type]
        approval: Approval = await rt.approve("a-1", by="grace", because="fine")
        effects: list[Effect] = [one async for one in rt.effects(session=view.id, state="acknowledged")]
        rt.approvals(decision="maybe")  # type: ignore[arg-type]
        waiting: AsyncIterator[Approval] = rt.approvals(decision="waiting")
        events: AsyncIterator[Event] = rt.events(view.id, follow=True)
        print(approval.decision, effects, waiting, events, (await rt.recovery_plan(view.id))[0])
        done = await rt.export(view.id, "s.zip")
        print(done.sha256, (await rt.verify()).damaged, (await rt.doctor()).healthy, (await rt.brief(view.id)).goal)
    perdure.open("memory:", policy=vague_policy)  # type: ignore[arg-type]


async def work() -> None:
    async with perdure.Worker("work.db", concurrency=8, policy=policy) as worker:
        await worker.idle()
        print(worker.failed, await worker.runtime.result("review-7"))


class Echo:
    """A model of the user's own."""

    name = "echo:1"

    async def reply(self, request: Any, on_text: Any) -> Any: ...


model: Model = Echo()
agent = Agent("fixer", model=ScriptedModel(["Done."]), tools=[read_page], instructions="Be brief.")
other = Agent("echo", model=model)


async def ask_agent() -> None:
    async with perdure.open() as rt:
        session = await rt.start(agent.bind("fix the failing test"), repository=".")
        try:
            await rt.result(session.id)
        except perdure.SessionFailed as error:
            print(error.code, error.hint, error.retry)
