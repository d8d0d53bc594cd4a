"""Several sessions written at the same time: moves are committed in groups, and some are refused within a group."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from perdure.domain.lease import Holder
from perdure.errors import Conflict, NotFound
from perdure.store.moves import event, session, task
from perdure.store.store import Store, open_store
from perdure.testing import ManualClock
from perdure.testing.sweep.fork_process import Channel
from tests.crash.support import planted_bugs
from tests.crash.support.kill_points import arm_everything
from tests.crash.support.power_loss_tasks import begin, numbers
from tests.crash.support.verdict import (
    Verdict,
    continue_session,
    examine,
    integrity_problems,
    judge_safely,
    merge,
    verdict,
)
from tests.store_copy import copy_store

IDS = tuple(f"parallel-{n}" for n in range(6))
ROUNDS = 6


def run_parallel_sessions(
    channel: Channel, *, fatal: int, plant: str | None, target: str, template: str, **_: Any
) -> dict[str, Any]:
    """Each session writes its numbers one after another; all sessions do so at the same time."""
    copy_store(template, target)
    counter = arm_everything(channel, fatal)
    planted_bugs.plant(plant)
    with open_store(target, clock=ManualClock()) as store:
        holders = begin(store, IDS)
        counter.counting = True
        asyncio.run(_all(channel, store, holders))
    counter.counting = False
    return {"moments": counter.moments}


async def _all(channel: Channel, store: Store, holders: list[Holder]) -> None:
    await asyncio.gather(*(_one(channel, store, holder, id) for holder, id in zip(holders, IDS, strict=True)))


async def _one(channel: Channel, store: Store, holder: Holder, id: str) -> None:
    await store.write(task.add(holder, "t", "a title"))
    for number in range(1, ROUNDS + 1):
        channel.send(
            ack={"id": id, "n": number, "number": await store.write(event.append(holder, "note", {"n": number}))}
        )
        try:
            await store.write(task.add(holder, "t", "another title"))
        except Conflict:
            continue
        channel.send(ack={"id": id, "n": -1, "number": 0})


def judge_parallel_sessions(_: object, *, acks: list[dict[str, Any]], measure: None, target: str, **__: Any) -> Verdict:
    """Every acknowledged number is where it was acknowledged; at most one more is there, which was under way."""

    def judge() -> Verdict:
        found = verdict()
        with open_store(target, clock=ManualClock()) as store:
            for id in IDS:
                merge(found, _session(store, id, [ack for ack in acks if ack["id"] == id]))
        found["broken"] += integrity_problems(Path(target))
        return found

    return judge_safely(judge)


def _session(store: Store, id: str, acks: list[dict[str, Any]]) -> Verdict:
    found = verdict()
    try:
        row = store.read_now(session.get_by_id, id)
    except NotFound:
        return verdict(lost=[f"{id} is gone"])
    there = store.read_now(numbers, row.uid)
    lines = {line.number: line.body.get("n") for line in store.read_now(event.after, row.uid)}
    found["lost"] += [f"{id}: {ack} is not there" for ack in acks if lines.get(ack["number"]) != ack["n"]]
    if there not in (list(range(1, len(acks) + 1)), list(range(1, len(acks) + 2))):
        found["half"].append(f"{id}: {len(acks)} acknowledged, and there are {there}")
    merge(found, store.read_now(examine, row.uid))
    return merge(found, continue_session(store, id))
