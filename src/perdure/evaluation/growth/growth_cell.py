"""One cell: one system at one length of history, measured in a fresh process on a copy of its history.

`python -m perdure.evaluation.growth.growth_cell CELLS` measures cells, given as JSON, and prints one JSON line for
each. It stops when a step takes longer than the cap: longer histories of that system are then not measured.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from perdure.evaluation.growth import agent_session, blob_session
from perdure.evaluation.session_blob import SessionBlob
from perdure.runtime.runtime import open as open_runtime
from perdure.store.moves import checkpoint

NAME = "session"


class GrowthCell(msgspec.Struct, frozen=True, kw_only=True):
    """What a process is to measure: a copy of a history, or with `build` a new one that is only made."""

    system: str
    address: str
    messages: int
    steps: int
    cap: float  # seconds
    build: bool = False

    @property
    def peer(self) -> str:
        """The name of the peer that is measured, or nothing."""
        name = self.system.split("/")[0]
        return "" if name in ("perdure", "blob") else name

    @property
    def is_blob(self) -> bool:
        return self.system.startswith("blob/")

    @property
    def configuration(self) -> str:
        return self.system.split("/")[2]


class GrowthFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a cell: seconds and bytes. `lines` are the lines of the history before and after the steps."""

    messages: int
    step: float = 0.0
    resume: float = 0.0
    resume_without_checkpoint: float = 0.0
    fork: float = 0.0
    written: float = 0.0
    checkpoint: int = 0
    before: int = 0
    after: int = 0
    steps: int = 0


def written_here() -> int:
    """The bytes that this process has passed to `write`, to files and also to pipes."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text(encoding="ascii").splitlines())
    return int(fields["wchar"])


def written_by(address: str) -> Callable[[], int]:
    """How many bytes a system has written: this process, or the log of the server."""
    if not address.startswith("postgresql:"):
        return written_here
    import psycopg

    server = psycopg.connect(address, autocommit=True)

    def position() -> int:
        row = server.execute("select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint").fetchone()
        return int(row[0]) if row else 0

    return position


async def build(cell: GrowthCell) -> None:
    if cell.is_blob:
        blob_session.build(Path(cell.address), cell.messages, strength=cell.configuration)
        return
    async with open_runtime(cell.address) as runtime:
        await agent_session.build(runtime, NAME, cell.messages, agent=cell.configuration)


async def measure_session(cell: GrowthCell) -> GrowthFigures:
    """A session of Perdure: cold resume, steps, fork, and a resume without any checkpoint."""
    resume = await agent_session.resume(cell.address, NAME)
    position = written_by(cell.address)
    async with open_runtime(cell.address) as runtime:
        await agent_session.turn(runtime, NAME)
        before, begun, taken = await _lines(runtime), position(), []
        for _ in range(cell.steps):
            start = time.perf_counter()
            await agent_session.turn(runtime, NAME)
            taken.append(time.perf_counter() - start)
        written, after = (position() - begun) / cell.steps, await _lines(runtime)
        size = await agent_session.checkpoint_size(runtime, NAME)
    fork = await agent_session.fork(cell.address, NAME)
    async with open_runtime(cell.address) as runtime:
        await runtime.store.write(checkpoint.delete_all())
    return GrowthFigures(
        messages=cell.messages, step=statistics.median(taken), resume=resume, fork=fork, written=written,
        resume_without_checkpoint=await agent_session.resume(cell.address, NAME), checkpoint=size, before=before,
        after=after, steps=cell.steps,
    )  # fmt: skip


async def _lines(runtime: Any) -> int:
    return sum([event.kind == "message" async for event in runtime.events(NAME)])


def measure_blob(cell: GrowthCell) -> GrowthFigures:
    path = Path(cell.address)
    resume = blob_session.resume(path, cell.configuration)
    blob, taken = SessionBlob(path), []
    blob_session.turn(blob, cell.configuration)
    before, begun = _messages(blob), written_here()
    for _ in range(cell.steps):
        start = time.perf_counter()
        blob_session.turn(blob, cell.configuration)
        taken.append(time.perf_counter() - start)
    written, after = (written_here() - begun) / cell.steps, _messages(blob)
    fork = blob_session.fork(path, path.with_name("branch.json"), cell.configuration)
    return GrowthFigures(
        messages=cell.messages, step=statistics.median(taken), resume=resume, fork=fork, written=written,
        resume_without_checkpoint=resume, checkpoint=path.stat().st_size, before=before, after=after, steps=cell.steps,
    )  # fmt: skip


def _messages(blob: SessionBlob) -> int:
    document = blob.read()
    return int(document["dropped"]) + len(document["messages"])


def measure(cell: GrowthCell) -> GrowthFigures:
    return measure_blob(cell) if cell.is_blob else asyncio.run(measure_session(cell))


async def warm_up(cell: GrowthCell) -> None:
    """Load the code of a turn, so that the first cell of a process does not pay for it."""
    if cell.address.startswith("postgresql:"):
        pass
    async with open_runtime("memory:") as runtime:
        await agent_session.build(runtime, NAME, 1)


def main() -> None:
    for number, cell in enumerate(msgspec.json.decode(sys.argv[1], type=list[GrowthCell])):
        if cell.build:
            asyncio.run(build(cell))
            continue
        if number == 0 and not cell.is_blob:
            asyncio.run(warm_up(cell))
        found = measure(cell)
        os.write(1, msgspec.json.encode(found) + b"\n")
        if found.step > cell.cap:
            return


if __name__ == "__main__":
    main()
