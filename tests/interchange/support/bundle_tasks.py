"""Tasks of the kill sweeps: export or import and be killed, or judge what is left and continue from there."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from perdure.artifacts.directory import missing
from perdure.interchange.signature import SigningKey
from perdure.runtime.runtime import Runtime
from perdure.runtime.runtime import open as open_runtime
from perdure.testing.sink import WHERE, SinkClient
from perdure.testing.sweep.fork_process import Channel
from perdure.testing.sweep.trial import KillPointCounter
from tests.crash.support.kill_points import arm_everything
from tests.crash.support.verdict import Verdict, verdict
from tests.interchange.support import transfer
from tests.interchange.support.transfer import bodies, export_session, import_session, run_to_end, start_session

T = TypeVar("T")
LEFT = [
    "comment: only \x1b[31mstyle\x1b[0m: yes",
    "merge: 7",
]  # what is still to be done outside at the time of the export


def source(folder: str) -> str:
    return str(Path(folder, "source.db"))


def bundle(folder: str, form: str) -> Path:
    return Path(folder, f"t{form}")


def key(form: str) -> SigningKey | None:
    """A bundle as a folder is signed in these sweeps, and a .zip is not."""
    return None if form else SigningKey(bytes(32))


def on(target: str, folder: str, work: Callable[[Runtime], Awaitable[T]]) -> T:
    async def act() -> T:
        artifacts = None if target == source(folder) else Path(folder, "artifacts")
        async with open_runtime(target, by="ada", artifacts=artifacts, connections=2) as rt:
            return await work(rt)

    return asyncio.run(act())


def prepare(_: Channel, *, folder: str, sink: str, exported: bool, move: bool = True, form: str = ".zip") -> None:
    """A store with a session that waits for an approval; with `exported`, its bundle as well."""
    os.environ |= {WHERE: sink, "TRAVELLER_ONCE": str(Path(folder, "once"))}

    async def work(rt: Runtime) -> None:
        await start_session(rt)
        if exported:
            await export_session(rt, "t-1", bundle(folder, form), move=move)

    on(source(folder), folder, work)


def _killed(
    channel: Channel, template: str, folder: str, fatal: int, work: Callable[[KillPointCounter], None]
) -> dict[str, Any]:
    shutil.copytree(template, folder, dirs_exist_ok=True)
    counter = arm_everything(channel, fatal)
    work(counter)
    counter.counting = False
    return {"moments": counter.moments}


def export_move(
    channel: Channel, *, fatal: int, plant: None, template: str, folder: str, form: str, **_: Any
) -> dict[str, Any]:
    """Export as a move, and be killed."""

    def work(counter: KillPointCounter) -> None:
        async def act(rt: Runtime) -> None:
            counter.counting = True
            await export_session(rt, "t-1", bundle(folder, form), move=True, key=key(form))

        on(source(folder), folder, act)

    return _killed(channel, template, folder, fatal, work)


def import_bundle(
    channel: Channel, *, fatal: int, plant: None, template: str, folder: str, form: str, target: str, **_: Any
) -> dict[str, Any]:
    """Import, and be killed; creating the store is swept elsewhere."""

    def work(counter: KillPointCounter) -> None:
        async def act(rt: Runtime) -> None:
            counter.counting = True
            await import_session(rt, bundle(folder, form))

        on(target, folder, act)

    return _killed(channel, template, folder, fatal, work)


def judge_export(_: Channel, *, folder: str, form: str, target: str, sink: str, **more: Any) -> Verdict:
    """A bundle is only there if its session is sealed; in any case the session can be exported and continues."""
    found: list[str] = []

    async def judge(rt: Runtime) -> None:
        sealed = (await rt.get("t-1")).sealed_at is not None
        if bundle(folder, form).exists() and not sealed:
            found.append("the bundle is there, and the session is not sealed")
        found.extend(await _same_again(rt, folder, form))

    on(source(folder), folder, judge)
    return verdict(half=found + _import_problems(folder, form, target, sink))


async def _same_again(rt: Runtime, folder: str, form: str) -> list[str]:
    there = bundle(folder, form).exists()
    first = await export_session(rt, "t-1", bundle(folder, form), move=True, key=key(form))
    second = await export_session(rt, "t-1", Path(folder, f"again{form}"), move=True, key=key(form))
    return [] if first.sha256 == second.sha256 else [f"exported again it is another bundle ({there=})"]


def judge_import(_: Channel, *, folder: str, form: str, target: str, sink: str, **more: Any) -> Verdict:
    """Nothing or all of it is there; imported again all is, and it runs to its end and does everything once."""
    return verdict(half=_import_problems(folder, form, target, sink))


def _import_problems(folder: str, form: str, target: str, sink: str) -> list[str]:
    os.environ |= {WHERE: sink, "TRAVELLER_ONCE": str(Path(folder, "once"))}
    outside = SinkClient(sink)
    found: list[str] = []
    sent = on(source(folder), folder, _tables)

    async def judge(rt: Runtime) -> None:
        here = [one async for one in rt.sessions()]
        assert rt.values.directory is not None
        gone = [await rt.store.read(missing, rt.values.directory, one.uid) for one in here]
        if any(gone):
            found.append(f"artifacts are claimed and not there: {gone}")
        if here and await _tables(rt) != sent:
            found.append(f"half of it is there: {[one.id for one in here]}")
        again = await import_session(rt, bundle(folder, form))
        if again.changed == bool(here):
            found.append(f"{len(here)} sessions were there, and importing again changed={again.changed}")
        if await _tables(rt) != sent:
            found.append("imported again, it is not what was exported")
        if again.mode == "move":
            ended = await run_to_end(rt, "t-1", outside)
            if (ended.status, bodies(outside)) != ("done", LEFT):
                found.append(f"it is {ended.status}, and outside is {bodies(outside)}")
        else:
            waiting = await rt.run("t-1")
            if ([one.kind for one in waiting.waits], bodies(outside)) != (["effect"], []):
                found.append(f"the copy waits for {waiting.waits}, and outside is {bodies(outside)}")
        for one in [one async for one in rt.sessions()]:
            transfer.verify(rt, one.uid)

    on(target, folder, judge)
    return found


async def _tables(rt: Runtime) -> Any:
    """The rows of the exported session, whether it is history or continues here: not those of a copy."""
    oldest = min([one async for one in rt.sessions()], key=lambda one: one.uid)
    return transfer.stored_session(rt, oldest.uid).tables
