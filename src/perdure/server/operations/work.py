"""Work without database rights: the moves and reads of a worker, its wake-ups, and the bytes of artifacts.

What is allowed is decided for each move and read (`server.worker`): a request names no session in its path.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from perdure.artifacts.directory import CHUNK
from perdure.control.worker_protocol.arguments import Given
from perdure.control.worker_protocol.messages import LONGEST_WAIT, TopicsAnswer, Welcome, WorkAnswer
from perdure.domain.caller import Place, Verb
from perdure.errors import ConfigError, NotFound
from perdure.ids import new_uid
from perdure.server.operation import Body, Context, Ids, Operation, Touch
from perdure.server.operations import artifacts, bundles
from perdure.server.worker import uploads
from perdure.server.worker.execution import WorkerCalls
from perdure.server.worker.tag import tag_of
from perdure.store.move import StoreTransaction
from perdure.store.moves import session as sessions
from perdure.store.topics import ALL_QUEUES, WORKERS

MOST_TOPICS = 4096
LARGEST = 32 << 20  # bytes of one move: lines of a transcript stand in it
SERVICE = new_uid()  # this process: the versions of its wake-ups are its own


class MoveBody(Body, frozen=True):
    """One move. `id` is made by the worker, once; `done` are moves whose answers have arrived."""

    move: str
    id: str
    arguments: Given = Given()
    done: tuple[str, ...] = ()


class ReadBody(Body, frozen=True):
    """One read."""

    query: str
    arguments: Given = Given()


class TopicsBody(Body, frozen=True):
    """Wait until a topic changes after `version`, which the process `service` of the service told."""

    topics: list[str]
    service: str = ""
    version: int = -1


class Uploaded(msgspec.Struct, frozen=True):
    """Bytes that are stored, by their digest. A session claims them with a move."""

    digest: str
    size: int


def _calls(context: Context) -> WorkerCalls:
    return WorkerCalls(context.runtime, context.caller)


async def welcome(context: Context) -> Welcome:
    database = context.store.database
    return Welcome(
        tag=tag_of(context.caller), name=context.caller.name, now=context.store.clock.now(),
        restore_epoch=database.restore_epoch, schema_version=database.schema_version,
        keeps_artifacts=context.runtime.values.directory is not None,
    )  # fmt: skip


async def move(context: Context) -> WorkAnswer:
    body: MoveBody = context.body
    return await _calls(context).move(body.move, body.id, body.arguments, list(body.done))


async def read(context: Context) -> WorkAnswer:
    body: ReadBody = context.body
    return await _calls(context).read(body.query, body.arguments)


async def topics(context: Context) -> TopicsAnswer:
    """Answer at the first change; the same request after a while without one."""
    body: TopicsBody = context.body
    if len(body.topics) > MOST_TOPICS:
        raise ConfigError(f"More than {MOST_TOPICS} topics are named.")
    wakeups = context.store.wakeups
    names = await context.store.read(_seen, context, body.topics)
    if body.service != SERVICE:  # what changed before is not known
        return TopicsAnswer(service=SERVICE, version=wakeups.version, changed=names)
    stopping = asyncio.ensure_future(context.request.app.state.stopping.wait())
    waiting = asyncio.ensure_future(wakeups.wait_topics(body.version, names, LONGEST_WAIT))
    try:
        await asyncio.wait([stopping, waiting], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in (stopping, waiting):
            one.cancel()
        await asyncio.gather(stopping, waiting, return_exceptions=True)
    version = wakeups.version
    changed = [one for one in names if wakeups.has_changed(body.version, one)]
    return TopicsAnswer(service=SERVICE, version=version, changed=changed)


def _seen(tx: StoreTransaction, context: Context, names: list[str]) -> list[str]:
    """The topics that the caller may hear of: queues, workers, and sessions in its scopes. They carry no data."""
    return [one for one in names if one in (ALL_QUEUES, WORKERS) or one.startswith("queue:") or _sees(tx, context, one)]


def _sees(tx: StoreTransaction, context: Context, uid: str) -> bool:
    try:
        found = sessions.get(tx, uid)
    except NotFound:
        return False
    return context.caller.may(Verb.WORK, Place(found.queue, found.repository_id))


async def upload(context: Context) -> Uploaded:
    directory = context.runtime.values.directory
    if directory is None or context.content is None:
        raise ConfigError("This store has no folder for artifacts.", hint="Set `artifacts` in the settings.")
    path = Path(context.content.name, bundles.NAME)

    def put() -> tuple[str, int]:
        with path.open("rb") as file:
            return directory.put(iter(lambda: file.read(CHUNK), b""))

    name, size = await asyncio.to_thread(put)
    await context.store.write(uploads.remember(context.caller, name))
    return Uploaded(name, size)


async def _again(context: Context, _: Ids) -> Any:
    return await context.operation.handle(context)


OPERATIONS = (
    Operation(
        name="work.welcome", method="GET", path="/v1/work", verb=Verb.WORK, touches=Touch.SELF, handler=welcome,
        answer=Welcome, summary="What a worker must know before it registers: the tag of its ids, and the time.",
    ),
    Operation(
        name="work.move", method="POST", path="/v1/work/moves", verb=Verb.WORK, touches=Touch.WORK, handler=move,
        answer=WorkAnswer, body=MoveBody, again=_again, largest=LARGEST, refusals=(507,),
        example={"move": "wait.fire", "id": "m1", "arguments": {"args": ["0", "timer", "w"]}},
        summary="Make a move as a worker, once for each id.",
    ),
    Operation(
        name="work.read", method="POST", path="/v1/work/reads", verb=Verb.WORK, touches=Touch.WORK, handler=read,
        answer=WorkAnswer, body=ReadBody, again=_again, largest=LARGEST,
        example={"query": "session.get", "arguments": {"args": ["0"]}},
        summary="Read as a worker.",
    ),
    Operation(
        name="work.topics", method="POST", path="/v1/work/topics", verb=Verb.WORK, touches=Touch.SELF, handler=topics,
        answer=TopicsAnswer, body=TopicsBody, again=_again, example={"topics": ["queue"]},
        summary="Wait until something changes, for 20 seconds at most.",
    ),
    Operation(
        name="work.upload", method="POST", path="/v1/work/artifacts", verb=Verb.WORK, touches=Touch.SELF,
        handler=upload, answer=Uploaded, takes=artifacts.BINARY, receive=bundles.receive, again=_again,
        refusals=(408,), summary="Store the bytes of an artifact.",
    ),
    Operation(
        name="work.artifact", method="GET", path="/v1/work/artifacts/{digest}", verb=Verb.WORK, touches=Touch.ARTIFACT,
        handler=artifacts.get, media=artifacts.BINARY, refusals=(409, 416), partial=True,
        summary="The bytes of an artifact of a session that the worker may run.",
    ),
)  # fmt: skip
