"""The processes of a trial: `python -m perdure.evaluation.interrupt.continuation PART TRIAL`, the trial as JSON.

    move        migrate the store, and move every second session to the other database by a bundle
    continue    after the wait: declare the changed program, let the person decide, and run every session
    blob        the same over session blobs, which are written and continued in one process

Each of them is a fresh process on a clock that stands days after the sessions were suspended.
"""

from __future__ import annotations

import asyncio
import io
import sys
from pathlib import Path
from typing import Any

import msgspec

from perdure.errors import PerdureError
from perdure.evaluation.interrupt.blob_program import resume_blob, suspend
from perdure.evaluation.interrupt.older_store import migrate_store, schema_of
from perdure.evaluation.interrupt.programs import CHANGES
from perdure.runtime.queries import SessionView
from perdure.runtime.runtime import Runtime
from perdure.runtime.runtime import open as open_runtime
from perdure.testing.clock import ManualClock

DAYS = 4  # between the suspension and the continuation


class InterruptTrial(msgspec.Struct, frozen=True, kw_only=True):
    """A trial as its processes get it."""

    folder: str
    change: str
    store: str = ""
    other: str = ""  # the database to which half of the sessions are moved
    versioned: bool = False  # of blobs


def days_later() -> ManualClock:
    clock = ManualClock()
    clock.advance(days=DAYS)
    return clock


async def move(trial: InterruptTrial) -> None:
    """Migrate the older store, and move every second session by a bundle."""
    before = schema_of(trial.store)
    migrate_store(trial.store)
    after, moved = schema_of(trial.store), []
    clock = days_later()
    async with open_runtime(trial.store, clock=clock) as here, open_runtime(trial.other, clock=clock) as there:
        names = sorted([one.id async for one in here.sessions()], key=lambda name: int(name.rpartition("-")[2]))
        for name in (name for number, name in enumerate(names) if number // 4 % 2):
            bundle = io.BytesIO()
            await here.export(name, bundle, move=True)
            await there.import_(io.BytesIO(bundle.getvalue()))
            moved.append(name)
    line = {"schema_before": before, "schema_after": after, "sessions": names, "moved": moved}
    write_lines(trial, "move.jsonl", [line])


def write_lines(trial: InterruptTrial, name: str, lines: list[dict[str, Any]]) -> None:
    """Write a raw file of the trial."""
    Path(trial.folder, name).write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


async def resume_all(trial: InterruptTrial) -> None:
    """Continue every session with the changed program, and write what became of it."""
    CHANGES[trial.change]()
    lines = []
    for address in (trial.store, trial.other):
        async with open_runtime(address, clock=days_later()) as runtime:
            lines += [await resume(runtime, one.id) async for one in runtime.sessions() if one.sealed_at is None]
    write_lines(trial, "outcomes.jsonl", lines)


async def resume(runtime: Runtime, name: str) -> dict[str, Any]:
    """Let the person decide what a session waits for, and run it."""
    error = ""
    try:
        await decide(runtime, await runtime.get(name))
        await runtime.complete(name)
    except PerdureError as raised:
        error = raised.code
    view = await runtime.get(name)
    waits = [one.kind for one in view.waits]
    return {"session": name, "status": view.status, "waits": waits, "result": view.result, "error": error}


async def decide(runtime: Runtime, view: SessionView) -> None:
    for one in view.waits:
        if one.kind == "approval":
            await runtime.approve(one.id, by="grace", because="it was reviewed")
        elif one.kind == "input" and one.ref is not None:
            await runtime.answer(one.id, "yes", by="grace")
        elif one.kind == "input":
            await runtime.send(view.id, "yes", message_id="release")


def resume_blobs(trial: InterruptTrial) -> None:
    """Suspend sessions as blobs, and continue each with the changed program."""
    folder = Path(trial.folder)
    names = suspend(folder)
    write_lines(trial, "move.jsonl", [{"schema_before": 1, "schema_after": 2, "sessions": names, "moved": []}])
    found = [resume_blob(folder / f"{name}.json", trial.change, versioned=trial.versioned) for name in names]
    write_lines(trial, "outcomes.jsonl", found)


def main() -> None:
    part, given = sys.argv[1:]
    trial = msgspec.json.decode(given, type=InterruptTrial)
    match part:
        case "move":
            asyncio.run(move(trial))
        case "continue":
            asyncio.run(resume_all(trial))
        case _:
            resume_blobs(trial)


if __name__ == "__main__":
    main()
