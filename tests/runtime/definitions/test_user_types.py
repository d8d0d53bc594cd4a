"""A user's program under mypy strict: what is right is accepted, what is wrong is named."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import perdure
from perdure import Call, Outcome, Session, Transaction, program, tool


@dataclass
class Found:
    n: int


@tool
def plain(n: int, text: str = "x") -> str:
    return text * n


@tool(replay="pure")
async def asynchronous(n: int) -> Found:
    return Found(n)


@tool(replay="probe", inflight="20s", timeout="60s", retry=3, key_ttl="24h", safe_errors=(ConnectionRefusedError,),
      targets=("pr:{pr}",), gate=perdure.Gate("merge", quorum=1, expires="24h"))
def called(call: Call, pr: int, body: str) -> dict[str, int]:
    return {"id": len(call.key)}


@called.probe
def _(call: Call, pr: int, body: str) -> Outcome:
    return Outcome.happened({"id": 1}, reference="r")


@called.undo
def _undo(call: Call, result: dict[str, int] | None, pr: int, body: str) -> None:
    return None


@tool
async def called_asynchronous(call: Call, n: int) -> tuple[int, ...]:
    return (n, call.attempt)


@tool
def renamed(ctx: Call, n: int) -> int:
    return ctx.attempt + n


@tool(replay="joint")
def joint(tx: Transaction, account: str, cents: int) -> int:
    return len(tx.execute("select ?", (account,))) + cents


def step(n: int) -> list[Found]:
    return [Found(n)]


async def slow_step(n: int, *, twice: bool = False) -> str:
    return str(n)


@program
async def review(s: Session, pr: int, title: str = "") -> str:
    a: str = await s.do(plain, 2, text="y")
    b: Found = await s.do(asynchronous, n=1)
    c: dict[str, int] = await s.do(called, pr=pr, body=a)
    d: tuple[int, ...] = await s.do(called_asynchronous, 3)
    e: int = await s.do(joint, account="ada", cents=5)
    f: list[Found] = await s.step("f", step, 1)
    g: str = await s.step("g", slow_step, 1, twice=True)
    h: int = await s.step("h", lambda: 1)
    i: str = await s.child(review.bind(pr=pr + 1))
    j: str = await s.do(plain.keyed("left"), 2)
    chosen = await s.decide("left", because="shorter", then="plain")
    await chosen.settle("done")
    version: int = await s.remember("k", 1)
    await s.sleep(hours=8)
    await s.ask("Merge?", choices=["yes", "no"], timeout="2h")
    k: datetime = await s.now()
    l: UUID = await s.uuid()
    m: float = await s.random()
    n: list[Found] = await s.step("n", step, 1, retries=3, backoff="10s")
    o: str = await s.step("o", slow_step, 1, twice=True, retries=3)
    p, q = await s.gather(s.do(plain, 1), asynchronous(1))
    r: str = p
    t: Found = q
    u: tuple[str, ...] = await s.gather(*[slow_step(n) for n in range(7)])
    v: int = await s.do(renamed, 1)
    async with s.scope("aside"):
        await s.do(plain, 1)
    if version > 100:
        await s.restart(pr=pr)
    return a + str((b, c, d, e, f, g, h, i, j, k, l, m, n, o, r, t, u, v))


def main() -> None:
    result: str = perdure.run(review.bind(pr=7), id="review-7")
    assert plain(1) == result


async def look() -> None:
    async with perdure.open() as rt:
        s = await rt.start(review.bind(pr=7), id="review-7", owner="ada", repository=".")
        s = await rt.run(s.id)
        for one in s.waits:
            await rt.answer(one.id, "yes", by="ada")
        async for effect in rt.effects(session=s.id, in_doubt=True):
            await rt.settle(effect.id, "happened", by="ada", because="seen")
"""

WRONG = """
from perdure_user import asynchronous, called, called_asynchronous, joint, plain, review, slow_step, step
import perdure
from perdure import Session


async def wrong(s: Session) -> None:
    await s.do(plain, n="two")
    await s.do(plain)
    await s.do(plain, 1, colour="red")
    await s.do(called, pr="seven", body="x")
    await s.do(called, pr=7)
    await s.do(called_asynchronous, n="x")
    await s.do(asynchronous)
    await s.do(joint, account=1, cents=1)
    await s.do(joint, account="ada")
    await s.do(step, 1)
    await s.step("f", step, "one")
    await s.step("g", slow_step)
    review.bind(pr="seven")
    review.bind()
    await s.child(review.bind(title="x"))
    a: int = await s.do(plain, 1)
    b: str = await s.do(asynchronous, 1)
    c: list[int] = await s.do(called, pr=1, body="x")
    d: int = await s.step("g", slow_step, 1)
    e: int = await s.child(review.bind(pr=1))
    f: int = perdure.run(review.bind(pr=1))
    g: str = await s.now()
    h: int = await s.step("g", slow_step, 1, retries=3)
    await s.step("g", slow_step, 1, retries="many")
    i: tuple[int, int] = await s.gather(s.do(plain, 1), s.do(asynchronous, 1))
    await s.gather(1)
"""


@pytest.mark.slow
def test_mypy_accepts_a_users_program_and_rejects_every_wrong_use(tmp_path: Path) -> None:
    (tmp_path / "perdure_user.py").write_text(PROGRAM)
    (tmp_path / "perdure_wrong.py").write_text(WRONG)
    source = Path(__file__).parents[2] / "src"
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-version=3.11", "perdure_user.py", "perdure_wrong.py"],
        cwd=tmp_path, capture_output=True, text=True, env={"MYPYPATH": str(source), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    said = checked.stdout
    mine = [line for line in said.splitlines() if line.startswith("perdure_user.py")]
    assert mine == [], said
    named = {int(found[1]) for found in re.finditer(r"^perdure_wrong\.py:(\d+): error", said, re.MULTILINE)}
    first = next(n for n, line in enumerate(WRONG.splitlines(), 1) if "async def wrong" in line) + 1
    assert named == set(range(first, len(WRONG.splitlines()) + 1)), said
