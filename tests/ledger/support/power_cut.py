"""A program on a disk that loses power, with a sink that does not: what was done outside stays done.

The program runs once on a recorded disk. For each disk that a cut could have left, a run of the sink gets what had been
stored by then, the machine starts again, and the program runs to its end.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from perdure import Runtime
from perdure.clock import SystemClock
from perdure.ids import new_name
from perdure.runtime.definitions.program import PROGRAMS, Bound
from perdure.runtime.workers import liveness
from perdure.store.databases.sqlite.database import SQLite
from perdure.store.store import Store
from perdure.testing.sink import WHERE, SinkClient
from perdure.testing.sweep.fork_process import Channel
from perdure.testing.sweep.trial import answer, run_program
from tests.crash.support.disk_states import sweep
from tests.crash.support.power_loss import PowerLoss
from tests.ledger.support.planted_bugs import PLANTS


def cut_power(channel: Channel, *, base: str, program: str, plant: str, states: int, seed: int) -> dict[str, Any]:
    """Record one run, cut the power at prefixes of it, and run again from what is left."""
    if plant:
        PLANTS[plant]()
    bound = Bound(PROGRAMS[program], {"n": 3})
    with tempfile.TemporaryDirectory(prefix="recorded-") as folder:
        first = _at(base)
        with PowerLoss(folder) as disk, _marking(disk):
            _run(bound, Path(folder), disk.vfs_name)
        wanted = sorted(_bodies(first))

        def check(left: Path, marks: list[str], label: str) -> str | None:
            run = _at(base)
            for mark in marks:
                kept = msgspec.json.decode(mark)
                run.post(None, kept["body"], marker=kept["marker"])
            vars(liveness)["boot_id"] = lambda: label
            _run(bound, left, None)
            found = sorted(_bodies(run))
            run.forget()
            return None if found == wanted else f"{found} is outside, and {wanted} should be"

        return asdict(sweep(disk.log, check, states=states, seed=seed))


def _at(base: str) -> SinkClient:
    """A new run of the sink, used by everything in this process from now on."""
    os.environ[WHERE] = f"{base}/{new_name('power')}"
    return SinkClient.here()


def _bodies(run: SinkClient) -> list[str]:
    return [msgspec.json.encode(one["body"]).decode() for one in run.kept()]


def _run(bound: Bound[Any], folder: Path, vfs: str | None) -> None:
    async def go() -> None:
        store = Store(SQLite(folder / "perdure.db", SystemClock(), vfs=vfs), str(folder / "perdure.db"))
        async with Runtime(store) as runtime:
            await run_program(runtime, bound, "swept", answer)

    asyncio.run(go())


class _marking:  # noqa: N801 - used as a function
    """While entered, each post is marked on the disk as soon as the sink has stored it."""

    def __init__(self, disk: PowerLoss) -> None:
        self._disk = disk
        self._real = SinkClient.post

    def __enter__(self) -> None:
        disk, real = self._disk, self._real

        def post(self: SinkClient, key: str | None, body: Any, **more: Any) -> Any:
            receipt = real(self, key, body, **more)
            disk.mark(msgspec.json.encode({"body": body, "marker": more.get("marker") or key}).decode())
            return receipt

        SinkClient.post = post  # type: ignore[method-assign]

    def __exit__(self, *_: object) -> None:
        SinkClient.post = self._real  # type: ignore[method-assign]
