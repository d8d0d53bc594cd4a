"""What the tests of bundles do again and again: begin, export, import, see through, and look underneath."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from perdure.errors import SessionWaiting
from perdure.interchange.export import Exported, export
from perdure.interchange.import_ import Imported, import_bundle
from perdure.interchange.signature import SigningKey
from perdure.runtime.queries import SessionView
from perdure.runtime.runtime import Runtime
from perdure.store.moves import event, inbox
from perdure.store.transfer import session_export
from perdure.testing import SinkClient
from perdure.testing.sweep.trial import answer
from tests.interchange.traveller import traveller


async def begin(rt: Runtime, id: str = "t-1", **arguments: Any) -> SessionView:
    """A session that waits for an approval, with a record in every table."""
    started = await rt.start(traveller.bind(**arguments), id=id, owner="grace", title="a \x1b[2Jtitle")
    await rt.store.write(inbox.receive(started.uid, "ada", "m-1", {"text": "also the docs"}))  # nobody reads it
    return await rt.run(started.id)


async def leave(rt: Runtime, name: str, path: Path, *, move: bool = False, key: SigningKey | None = None) -> Exported:
    uid = (await rt.get(name)).uid
    artifacts = rt.values.directory
    return await asyncio.to_thread(
        export, rt.store, uid, path, by="ada", move=move, artifacts=artifacts, life_of=rt.life_of, key=key
    )


async def arrive(rt: Runtime, path: Path, **options: Any) -> Imported:
    return await asyncio.to_thread(import_bundle, rt.store, path, by="grace", artifacts=rt.values.directory, **options)


async def see_through(rt: Runtime, name: str, sink: SinkClient) -> SessionView:
    """Run a session to its end, with somebody there who says yes to everything."""
    for _ in range(20):
        try:
            return await rt.complete(name)
        except SessionWaiting as waiting:
            for one in waiting.waits:
                await answer(rt, one, sink)
    raise AssertionError("it goes round and round")


def kept(rt: Runtime, uid: str) -> session_export.StoredSession:
    """Everything stored of a session, in an order of its own."""
    found = rt.store.read_now(session_export.read_lineage, uid)[-1]
    for some in found.tables.values():
        some.sort(key=repr)
    return found


def verify(rt: Runtime, *uids: str) -> None:
    for uid in uids:
        rt.store.read_now(event.verify, uid)


def bodies(sink: SinkClient) -> list[str]:
    """What is outside."""
    return sorted("{}: {}".format(*next(iter(one["body"].items()))) for one in sink.kept())
