"""Programs for the sweeps: one for each rule, and one for each combination of effects."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time

import perdure
from perdure import Call, Outcome, Session, program, tool
from perdure.testing import SinkClient, SinkRefused

Receipt = dict[str, str]
SHORT = "20ms"
ENOUGH = 20  # attempts: on a busy machine, the short leases of the sweeps end again and again
SLOW = "LEDGER_SLOW"


@tool(replay="pure")
def look(call: Call, n: int) -> int:
    return n + 1


@tool(replay="idempotent", inflight=SHORT, retry=ENOUGH)
def charge(call: Call, n: int) -> Receipt:
    return _post(call.key, {"charge": n})


@tool(replay="probe", inflight=SHORT, retry=ENOUGH, safe_errors=(SinkRefused,))
def comment(call: Call, n: int) -> Receipt:
    return _post(None, {"comment": n}, call.key)


@comment.probe
def _(call: Call, n: int) -> Outcome:
    return _found(call)


@tool(replay="compensate", inflight=SHORT, retry=ENOUGH)
def book(call: Call, n: int) -> Receipt:
    return _post(None, {"book": n}, call.key)


@book.undo
def _(call: Call, result: Receipt | None, n: int) -> None:
    SinkClient.here().delete(key=call.undoes)
    _delay()


@tool(inflight=SHORT)
def mail(call: Call, n: int) -> Receipt:
    return _post(None, {"mail": n}, call.key)


@tool(replay="joint")
def debit(tx: perdure.Transaction, account: str, cents: int) -> int:
    tx.execute("create table if not exists debit (account text, cents bigint)")
    if cents:
        tx.execute("insert into debit (account, cents) values (?, ?)", (account, cents))
    total: int = tx.execute("select count(*) from debit where account = ?", (account,))[0][0]
    return total


@tool(replay="probe", inflight=SHORT, retry=ENOUGH, gate=perdure.Gate("merge"))
def merge(call: Call, n: int) -> Receipt:
    return _post(None, {"merge": n}, call.key)


@merge.probe
def _(call: Call, n: int) -> Outcome:
    return _found(call)


@tool(inflight=SHORT, gate=perdure.Gate("send", requester_may_decide=True))
def announce(call: Call, n: int) -> Receipt:
    return _post(None, {"announce": n}, call.key)


@tool(replay="compensate", inflight=SHORT, retry=ENOUGH)
def book_keyed(call: Call, n: int) -> Receipt:
    return _post(call.key, {"book": n})


@book_keyed.undo
def _(call: Call, result: Receipt | None, n: int) -> None:
    SinkClient.here().delete(key=call.undoes)


def _post(key: str | None, body: dict[str, int], marker: str | None = None) -> Receipt:
    receipt: Receipt = SinkClient.here().post(key, body, marker=marker)
    return receipt


def _found(call: Call) -> Outcome:
    found = SinkClient.here().find(key=call.key)
    _delay()
    return Outcome.happened({"id": found[0]["id"]}, reference=found[0]["id"]) if found else Outcome.absent()


def _delay() -> None:
    """In a sweep of slow probes and undos: requests in flight land after the check, and the answer comes much later.

    Either only this thread is slow, or the whole process is stopped for that time, with its heartbeat and its clock.
    """
    if slow := os.environ.get(SLOW):
        how, _, seconds = slow.partition(":")
        SinkClient.here().release()
        if how == "stop":
            subprocess.Popen(["sh", "-c", f"sleep {seconds}; kill -CONT {os.getpid()}"])
            os.kill(os.getpid(), signal.SIGSTOP)
        else:
            time.sleep(float(seconds))


def read(n: int) -> int:
    return n * 2


@program
async def pure(s: Session, n: int) -> int:
    a = await s.step("read", read, n)
    return await s.do(look, n=a)


@program
async def idempotent(s: Session, n: int) -> list[str]:
    return [(await s.do(charge, n=n))["id"], (await s.do(charge, n=n + 1))["id"]]


@program
async def probe(s: Session, n: int) -> list[str]:
    return [(await s.do(comment, n=n))["id"], (await s.do(comment, n=n + 1))["id"]]


@program
async def compensate(s: Session, n: int) -> list[str]:
    return [(await s.do(book, n=n))["id"], (await s.do(book, n=n + 1))["id"]]


@program
async def escalate(s: Session, n: int) -> list[str]:
    return [(await s.do(mail, n=n))["id"], (await s.do(mail, n=n + 1))["id"]]


@program
async def joint(s: Session, n: int) -> list[int]:
    first = await s.do(debit, account=s.id, cents=n)
    second = await s.do(debit, account=s.id, cents=n)
    return [first, second, await s.do(debit, account=s.id, cents=0)]


@program
async def gated(s: Session, n: int) -> list[str]:
    first = await s.do(merge, n=n)
    return [first["id"], (await s.do(announce, n=n))["id"]]


@program
async def parallel(s: Session, n: int) -> list[str]:
    receipts = await asyncio.gather(s.do(charge, n=n), s.do(comment, n=n), s.do(mail, n=n))
    return [receipt["id"] for receipt in receipts]


@program
async def child(s: Session, n: int) -> str:
    return (await s.do(comment, n=n))["id"]


@program
async def parent(s: Session, n: int) -> list[str]:
    first = await s.child(child.bind(n=n))
    return [first, (await s.do(mail, n=n + 1))["id"]]


@program
async def timer(s: Session, n: int) -> str:
    await s.sleep(seconds=0.02)
    receipt = await s.do(comment, n=n)
    await s.sleep(seconds=0.01)
    return receipt["id"]


@program
async def forked(s: Session, n: int) -> list[str]:
    first = await s.do(comment, n=n)
    second = await s.do(mail, n=n + 1)
    third = await s.do(book, n=n + 2)
    answer = await s.ask("Which way?", choices=["left", "right"])
    return [first["id"], second["id"], third["id"], answer]


@program
async def compensate_keyed(s: Session, n: int) -> str:
    return (await s.do(book_keyed, n=n))["id"]
