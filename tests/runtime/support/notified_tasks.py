"""Tasks of the kill sweep of notifications: write and send some and be killed, or judge what the receiver got."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from perdure import faults
from perdure.domain.notification import Notification
from perdure.domain.wait import WaitKind
from perdure.runtime.runtime import Runtime
from perdure.runtime.services.notifications import NotificationSender
from perdure.store.moves import lease, session, wait
from perdure.store.store import open_store
from perdure.testing import ManualClock
from perdure.testing.sink_process import read_log
from perdure.testing.sweep.fork_process import Channel
from perdure.testing.sweep.trial import KillPointCounter
from tests.crash.support.verdict import Verdict, judge_safely, verdict
from tests.store_copy import copy_store

CALL = {"gate": "merge", "tool": "push"}
TOLD = 3


def opened(target: str, url: str, clock: ManualClock) -> Runtime:
    os.environ["HOOK_SECRET"] = "a-secret-of-the-receiver"
    hook = {"kind": "webhook", "url": f"{url}/hook", "secrets": ["env:HOOK_SECRET"], "private": True}
    return Runtime(open_store(target, clock=clock, connections=2), notifications={"ops": hook})


async def send(runtime: Runtime) -> None:
    sender = NotificationSender(runtime)
    await sender.look_if_due()
    while sender._tasks:
        await asyncio.wait(list(sender._tasks.values()))


def tell(
    channel: Channel, *, fatal: int, target: str, url: str, template: str | None = None, **_: Any
) -> dict[str, Any]:
    """Open waits that people are told about, and send; each wait that is acknowledged is a message."""
    if template is not None:
        copy_store(template, target)
    counter = KillPointCounter(channel, fatal)
    faults.arm(lambda name: counter.reach(f"point {name}"))

    async def work() -> None:
        async with opened(target, url, ManualClock()) as runtime:
            await runtime.notification_outbox.register()
            store = runtime.store
            uid = store.write_now(session.create(session.NewSession(id="s", program="p", arguments={}), by="ada")).uid
            holder = store.write_now(lease.acquire(uid, "worker-1", nonce="n", ttl=60_000_000))
            counter.counting = True
            for number in range(TOLD):
                id = f"a-{number}"
                await store.write(wait.open_(holder, id, WaitKind.APPROVAL, ref=f"e-{number}", detail=CALL))
                channel.send(ack=id)
                if number:
                    await send(runtime)
            counter.counting = False

    asyncio.run(work())
    return {"moments": counter.moments}


def judge(channel: object, *, acks: list[str], measure: Any, target: str, url: str, log: str, **_: Any) -> Verdict:
    """Send what is left, as the next process does, and compare the store with what the receiver has logged."""

    def check() -> Verdict:
        clock = ManualClock()
        clock.advance(hours=1)
        rows = asyncio.run(rest(clock))
        got = received(log)
        ids = {row.body["about"]["wait"]: row.id for row in rows}
        found = verdict(lost=[f"{id} was acknowledged, and nothing was written" for id in acks if id not in ids])
        found["lost"] += [f"{id} was not received" for id in ids.values() if id not in [one["id"] for one in got]]
        found["half"] += [f"{one['id']} was received and is not there" for one in got if one["id"] not in ids.values()]
        found["half"] += [f"{id} was received in two forms" for id in ids.values() if len(forms(got, id)) > 1]
        found["stuck"] += [f"{row.id} is {row.state}" for row in rows if row.state != "sent"]
        return found

    async def rest(clock: ManualClock) -> list[Notification]:
        async with opened(target, url, clock) as runtime:
            await send(runtime)
            return [one async for one in runtime.notifications()]

    return judge_safely(check)


def received(log: str) -> list[dict[str, Any]]:
    path = Path(log)
    return [line["body"] for line in read_log(path) if line["what"] == "kept"] if path.exists() else []


def forms(got: list[dict[str, Any]], id: str) -> set[str]:
    return {str(one) for one in got if one["id"] == id}
