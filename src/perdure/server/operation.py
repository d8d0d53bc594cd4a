"""An operation: one thing that can be asked of the service, declared as data.

Routes, authorization and the OpenAPI document are made from the same table (`operations.TABLE`): nothing is routed
without a verb and without saying what it touches.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NamedTuple

import msgspec
from starlette.requests import Request

from perdure.domain.caller import Caller, Placed, Verb
from perdure.domain.session import SessionRecord
from perdure.runtime.runtime import Runtime
from perdure.store.move import StoreTransaction
from perdure.store.moves import access
from perdure.store.store import Store

JSON = "application/json"
EVENT_STREAM = "text/event-stream"
LAST_EVENT_ID = "last-event-id"
Number = Annotated[int, msgspec.Meta(ge=0, le=2**53)]  # of an event, or a time


class Touch(StrEnum):
    """What an operation touches, hence on what the rights of the caller are checked before it is handled."""

    SELF = "self"  # only the caller
    STORE = "store"  # the whole store: the scope `*`
    LISTING = "listing"  # many objects: the handler shows those that the caller may see
    PLACE = "place"  # a queue or a repository that `place` names
    SESSION = "session"  # the session `{id}`
    EFFECT = "effect"  # the session of the effect `{id}`
    APPROVAL = "approval"  # the session of the approval `{id}`
    WAIT = "wait"  # the session of the wait `{id}`
    ARTIFACT = "artifact"  # a session that has the artifact `{digest}`
    WORK = "work"  # what a move or a read of a worker names; it is checked in its transaction


class Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What a request says, in its body or in its query."""


class InSession(Body, frozen=True):
    """In which session, if several have an object of this id."""

    session: str | None = None


class Nothing(Body, frozen=True):
    """An empty body."""


class ShownRead(NamedTuple):
    """What a caller will be shown of a session: its transcript, or with a subject one approval."""

    action: str
    session_uid: str
    subject: str | None


class Context:
    """One request while it is handled: who asks, for what, and what it touches."""

    __slots__ = (
        "body", "caller", "content", "content_digest", "found", "operation", "params", "query", "reads", "request",
        "runtime", "session",
    )  # fmt: skip

    def __init__(self, operation: Operation, request: Request, runtime: Runtime, caller: Caller) -> None:
        self.operation = operation
        self.request = request
        self.runtime = runtime
        self.caller = caller
        self.params = {name: decoded(value) for name, value in request.path_params.items()}
        self.query: Any = None
        self.body: Any = None
        self.content: TemporaryDirectory[str] | None = None  # has the body, if it is no JSON
        self.content_digest: str | None = None  # of a body that is no JSON
        self.found: Any = None  # the effect, approval, wait or artifact that is touched
        self.session: SessionRecord | None = None
        self.reads: list[ShownRead] = []  # what the policy wants to be recorded

    @property
    def store(self) -> Store:
        return self.runtime.store

    @property
    def by(self) -> str:
        """The name that is recorded."""
        return self.caller.name

    @property
    def uid(self) -> str:
        """The uid of the session that is touched."""
        assert self.session is not None
        return self.session.uid

    async def note_read(self, kind: str, subject: str | None = None, detail: str | None = None) -> None:
        """Record that the caller reads something, if the policy asks for it. Without a session: of many."""
        uid = None if self.session is None else self.session.uid
        await self.runtime.queries.access.note(kind, uid, subject=subject, detail=detail)

    def will_show(
        self, tx: StoreTransaction, action: str, subject: str | None = None, session: str | None = None
    ) -> None:
        """The same for what a transaction reads of the session, or of another one."""
        one = ShownRead(action, session or self.uid, subject)
        if one not in self.reads and access.is_logged(tx, action):
            self.reads.append(one)

    async def record_reads(self) -> None:
        """Record what will be shown; if it cannot be recorded, nothing is."""
        while self.reads:
            one = self.reads[-1]
            await self.store.write(access.note(one.action, one.session_uid, subject=one.subject))
            self.reads.pop()


Handler = Callable[[Context], Awaitable[Any]]
Read = Callable[[StoreTransaction, Context], Any]
Ids = dict[str, Any]


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One operation. `handler` gets a context that is authorized, and returns a record or a response.

    `read` is the handler of an operation that is one read: it is called in the transaction in which the request is
    authenticated and authorized. With `also_streams`, the handler is for the stream.
    """

    name: str
    method: str
    path: str
    verb: Verb
    touches: Touch
    summary: str
    handler: Handler | None = None
    read: Read | None = None
    shows: str = ""  # what `read` shows of the session, which the policy may want to be recorded
    answer: Any = None  # the type of the answer; None: no body
    body: type[Body] | None = None
    query: type[Body] | None = None
    status: int = 200
    place: Callable[[Context], Awaitable[Placed]] | None = None
    example: Any = None  # of the body
    media: str = JSON  # of the answer
    partial: bool = False  # it answers ranges, and nothing to a client that has the content
    also_streams: bool = False  # it answers with a stream of events, if the client accepts one
    takes: str = JSON  # of the body
    refusals: tuple[int, ...] = ()  # further statuses, besides those of every operation
    made: Callable[[Any], Ids] | None = None  # names what was made, from the result of its move
    again: Callable[[Context, Ids], Awaitable[Any]] | None = None  # the answer to the same request, sent again
    decisive: str | None = None  # the move with which it is done, if that is not the first
    children_first: bool = False  # it changes children of its session, then the session: that move completes it
    many_moves: bool = False  # it commits more than once; carrying it out again completes it
    receive: Callable[[Context], Awaitable[None]] | None = None  # takes a body that is no JSON
    largest: int | None = None  # bytes of the body; None: the limit of the service

    async def handle(self, context: Context) -> Any:
        """Do what was asked, with a context that is authorized."""
        assert self.handler is not None
        return await self.handler(context)


def encoded(path: str) -> str:
    """A path whose segments may contain an encoded slash: decoded but for `%` and `/`, so that a route can split it."""
    if "%" not in path:
        return path
    from urllib.parse import unquote

    return "/".join(unquote(part).replace("%", "%25").replace("/", "%2F") for part in path.split("/"))


def decoded(segment: str) -> str:
    return segment.replace("%2F", "/").replace("%25", "%")
