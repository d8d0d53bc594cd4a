"""A crowd: several sessions moved at once, so that moves are committed in groups, some of which are refused in them."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

from perdure.domain.lease import Holder
from perdure.errors import Conflict, NotFound
from perdure.store.moves import event, session, task
from perdure.store.store import Store, open_store
from perdure.testing import ManualClock
from perdure.testing.sweep.fork_process import Voice
from tests.crash import planted
from tests.crash.judge import Verdict, careful, examine, go_on, holds_together, merge, verdict
from tests.crash.kill import Countdown
from tests.crash.recordings import begin, numbers

IDS = tuple(f"crowd-{n}" for n in range(6))
ROUNDS = 6


def live_in_a_crowd(
    voice: Voice, *, fatal: int, plant: str | None, target: str, template: str, **_: Any
) -> dict[str, Any]:
    """Each session writes its numbers one after another; all sessions do so at the same time."""
    shutil.copy(template, target)
    countdown = Countdown(voice, fatal)
    countdown.arm()
    planted.plant(plant)
    with open_store(target, clock=ManualClock()) as store:
        holders = begin(store, IDS)
        countdown.start()
        asyncio.run(_all(voice, store, holders))
    countdown.stop()
    return {"moments": countdown.moments}


async def _all(voice: Voice, store: Store, holders: list[Holder]) -> None:
    await asyncio.gather(*(_one(voice, store, holder, id) for holder, id in zip(holders, IDS, strict=True)))


async def _one(voice: Voice, store: Store, holder: Holder, id: str) -> None:
    await store.write(task.add(holder, "t", "a title"))
    for number in range(1, ROUNDS + 1):
        voice.say(ack={"id": id, "n": number, "number": await store.write(event.append(holder, "note", {"n": number}))})
        try:
            await store.write(task.add(holder, "t", "another title"))
        except Conflict:
            continue
        voice.say(ack={"id": id, "n": -1, "number": 0})


def judge_crowd(_: object, *, acks: list[dict[str, Any]], measure: None, target: str, **__: Any) -> Verdict:
    """Every acknowledged number is where it was said to be; at most the one under way is there besides."""

    def look() -> Verdict:
        found = verdict()
        with open_store(target, clock=ManualClock()) as store:
            for id in IDS:
                merge(found, _session(store, id, [ack for ack in acks if ack["id"] == id]))
        found["broken"] += holds_together(Path(target))
        return found

    return careful(look)


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
    return merge(found, go_on(store, id))
