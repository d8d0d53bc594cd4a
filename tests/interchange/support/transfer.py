"""What the tests of bundles share: start, export, import and run a session, and read what is stored."""

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
from tests.interchange.support.moved_program import traveller


async def start_session(rt: Runtime, id: str = "t-1", **arguments: Any) -> SessionView:
    """A session that waits for an approval, with a record in every table."""
    started = await rt.start(traveller.bind(**arguments), id=id, owner="grace", title="a \x1b[2Jtitle")
    await rt.store.write(inbox.receive(started.uid, "ada", "m-1", {"text": "also the docs"}))  # it stays unread
    return await rt.run(started.id)


async def export_session(
    rt: Runtime, name: str, path: Path, *, move: bool = False, key: SigningKey | None = None
) -> Exported:
    uid = (await rt.get(name)).uid
    artifacts = rt.values.directory
    return await asyncio.to_thread(
        export, rt.store, uid, path, by="ada", move=move, artifacts=artifacts, life_of=rt.life_of, key=key
    )


async def import_session(rt: Runtime, path: Path, **options: Any) -> Imported:
    return await asyncio.to_thread(import_bundle, rt.store, path, by="grace", artifacts=rt.values.directory, **options)


async def run_to_end(rt: Runtime, name: str, sink: SinkClient) -> SessionView:
    """Run a session to its end, with a person who approves everything."""
    for _ in range(20):
        try:
            return await rt.complete(name)
        except SessionWaiting as waiting:
            for one in waiting.waits:
                await answer(rt, one, sink)
    raise AssertionError("the session does not end")


def stored_session(rt: Runtime, uid: str) -> session_export.StoredSession:
    """Everything stored of a session, sorted."""
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
