"""A program of three acts in a process of its own, which changes the policy or kills itself at its n-th point.

`python -m tests.runtime.support.policy_app TARGET SINK MODE N`: `kill` at any durable point; `change` sets a policy
that denies, at a point at which no transaction is open; `change-and-kill` does both; `freeze` freezes the policy there.
Each act appends a line to the sink. A line `changed` in it comes after the commit of the policy, with the attempts that
were on record then.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import perdure
from perdure import Call, Session, faults, program, tool
from perdure.errors import NotFound
from perdure.store.move import StoreTransaction
from perdure.store.moves import effect, policy
from perdure.store.moves import session as sessions
from perdure.store.moves.attempt import attempts_of
from perdure.store.store import open_store

DENY = """
default = "allow"

[[rule]]
name = "no-acts"
answer = "deny"
reason = "Acts are forbidden."
tool = "policy_act"
"""
ACTS = 3
OUTSIDE = ("answer.after", "act.before", "act.begun", "act.after")
ANYWHERE = ("move.before", "move.after", "commit.before", "commit.after", *OUTSIDE)
SINK: list[Path] = []


@tool(replay="idempotent", inflight="1ms", key_ttl="1h", retry=9)
def policy_act(call: Call, n: int) -> int:
    say({"act": n, "effect": call.effect_id, "attempt": call.attempt})
    return n


@program
async def policy_acts(s: Session) -> int:
    return sum([await s.do(policy_act, n=n) for n in range(ACTS)])


def say(line: dict[str, object]) -> None:
    with SINK[-1].open("a") as sink:
        sink.write(json.dumps(line) + "\n")
        sink.flush()
        os.fsync(sink.fileno())


def said(sink: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in sink.read_text().splitlines()] if sink.exists() else []


def attempts(tx: StoreTransaction) -> list[list[object]]:
    """Every attempt of the session, with the policy that it was dispatched under."""
    try:
        uid = sessions.get_by_id(tx, "s").uid
    except NotFound:
        return []
    return [
        [one.effect_id, one.number, one.policy_version]
        for each in effect.of_session(tx, uid)
        for one in attempts_of(tx, uid, each.id)
    ]


def change(target: str, *, freeze: bool = False) -> None:
    """Set or freeze the policy, and note what had been dispatched by then."""
    store = open_store(target)
    try:
        if freeze:
            store.write_now(policy.freeze(by="grace", because="a test"))
        else:
            store.write_now(policy.activate(DENY, by="grace", because="a test"))
        say({"changed": store.read_now(attempts)})
    finally:
        store.close()


def main(target: str, mode: str, nth: int) -> None:
    seen, busy = 0, False

    def meet(point: str) -> None:
        nonlocal seen, busy
        if busy or point not in (ANYWHERE if mode == "kill" else OUTSIDE):
            return
        seen += 1
        if seen == nth:
            busy = True
            if mode != "kill":
                change(target, freeze=mode == "freeze")
            if "kill" in mode:
                os.kill(os.getpid(), signal.SIGKILL)

    async def run() -> None:
        async with perdure.open(target, lease="2s") as rt:
            await rt.start(policy_acts.bind(), id="s")
            faults.arm(meet)
            await rt.run("s")

    asyncio.run(run())


if __name__ == "__main__":
    SINK.append(Path(sys.argv[2]))
    main(sys.argv[1], sys.argv[3], int(sys.argv[4]))
