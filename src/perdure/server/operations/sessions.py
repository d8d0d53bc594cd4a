"""Sessions: list, read, start, branch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import PurePosixPath
from typing import Any

import msgspec

from perdure.control.branches.files import FileDiff
from perdure.control.branches.rewind import RewindResult, rewind
from perdure.control.brief import Brief
from perdure.domain.caller import Place, Verb
from perdure.domain.literals import ArchivedWord, StatusWord, WaitWord
from perdure.domain.session import SessionRecord
from perdure.domain.session_search import ARCHIVED, has_text
from perdure.domain.state import SessionState
from perdure.errors import ConfigError, Conflict, ProgramUnknown
from perdure.runtime.definitions.program import PROGRAMS, Bound
from perdure.runtime.queries import SessionView
from perdure.runtime.recovery.plan import RecoveryStep
from perdure.runtime.start.repository_identity import identify
from perdure.runtime.start_options import ConflictWord, StartOptions
from perdure.server.authorization import Sight, owner_of_start
from perdure.server.operation import Body, Context, Ids, Number, Operation, Touch
from perdure.server.page import Page, PageQuery, decode_key, encode_key, keyed_page
from perdure.store.move import StoreTransaction
from perdure.store.moves import page, wait
from perdure.store.moves import session as sessions

PAGE = 100
SEARCHED = 20_000  # sessions that one request of a search reads


class SessionQuery(PageQuery, frozen=True):
    """Which sessions; `search`: with this text in their id, title or prompt. A page of a search may be short."""

    status: StatusWord | None = None
    waiting_for: WaitWord | None = None
    owner: str | None = None
    repository: str | None = None
    archived: ArchivedWord = "with"
    search: str | None = None


class FailedQuery(PageQuery, frozen=True):
    """Which failed sessions: the code or the type of the error; `since` is a duration back from now."""

    queue: str | None = None
    program: str | None = None
    owner: str | None = None
    error: str | None = None
    since: str | None = None


class StartSession(Body, frozen=True):
    """A program with its arguments, and how it is started."""

    program: str
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    id: str | None = None
    title: str | None = None
    owner: str | None = None
    repository: str | None = None
    queue: str = "default"
    priority: int = 0
    not_before: int | str | None = None
    key: str | None = None
    retries: int | None = None
    timeout: str | float | None = None
    pin: bool = False
    debounce: str | float | None = None
    on_conflict: ConflictWord = "queue"


class ForkSession(Body, frozen=True):
    """Where to branch: at an event, or at the end; and the id of the branch."""

    at: Number | None = None
    id: str | None = None


class RewindSession(Body, frozen=True):
    """The event to go back to, and the id of the branch."""

    to: Number
    id: str | None = None


class StateQuery(Body, frozen=True):
    """After which event; without a number, after the last."""

    number: Number | None = None


class DiffQuery(Body, frozen=True):
    """Between which events, or against the parent of a branch."""

    first: Number | None = None
    last: Number | None = None
    parent: bool = False
    stat: bool = False


async def listing(context: Context) -> Page[SessionRecord]:
    query: SessionQuery = context.query
    after = None if query.after is None else decode_key(query.after, int, str)
    before: Any = None if after is None else sessions.Before(int(after[0]), str(after[1]))
    sight, kept = Sight(context), list[SessionRecord]()
    number = 0
    async for one in _pages(context, query, before):
        number += 1
        if query.search and number > SEARCHED:
            return Page(kept, encode_key(before.updated_at, before.uid))
        before = one
        if sight.sees(one) and (not query.search or has_text(one, query.search)):
            if len(kept) == query.limit:
                return Page(kept, encode_key(kept[-1].updated_at, kept[-1].uid))
            kept.append(one)
    return Page(kept)


async def _pages(context: Context, query: SessionQuery, before: Any) -> AsyncIterator[SessionRecord]:
    filters: dict[str, Any] = {
        "status": query.status, "waiting_for": query.waiting_for, "owner": query.owner, "repository": query.repository,
        "archived": ARCHIVED[query.archived],
    }  # fmt: skip
    while found := await context.store.read(sessions.page, **filters, before=before, limit=PAGE):
        for before in found:
            yield before


async def failed(context: Context) -> Page[SessionRecord]:
    query: FailedQuery = context.query
    names = ("queue", "program", "owner", "error", "since")
    wanted = context.runtime.failed_sessions.filter(**{name: getattr(query, name) for name in names})
    return await keyed_page(context, Sight(context), page.failed_sessions, (int, str), wanted=wanted)


def get(tx: StoreTransaction, context: Context) -> SessionView:
    assert context.session is not None
    return context.runtime.queries.view(context.session, wait.open_of_session(tx, context.uid))


async def again(context: Context, _: Ids) -> SessionView:
    """The session that was touched, as it is now."""
    return await context.runtime.get(context.uid)


async def made_again(context: Context, ids: Ids) -> SessionView:
    return seen(context, await context.runtime.get(ids["session"]))


def seen(context: Context, found: SessionView) -> SessionView:
    """A session that a request got by its id; one that the caller may not see is not shown to it."""
    if not context.caller.may(Verb.READ_SESSION, found):
        raise Conflict(
            f"Session {found.id} exists already, with another program or other arguments.",
            hint="Read it again, or choose another id.",
        )
    return found


async def start(context: Context) -> SessionView:
    body: StartSession = context.body
    given = {
        name: getattr(body, name)
        for name in StartSession.__struct_fields__
        if name not in ("program", "arguments", "id", "owner")
    }
    options = StartOptions.read(owner=owner_of_start(context, body.owner), **given)
    bound = bind(body.program, body.arguments)
    return seen(context, await context.runtime.starts.start_with(options, bound, body.id, by=context.by))


def bind(name: str, arguments: dict[str, Any]) -> Bound[Any]:
    """A program of this name with its arguments."""
    if name not in PROGRAMS:
        raise ProgramUnknown(
            f"The service has not loaded a program {name}.", hint="Start `perdure serve` with --app for its module."
        )
    program = PROGRAMS[name]
    try:
        return program.bind(**arguments)
    except TypeError as error:
        raise ConfigError(f"The arguments do not fit the program {name}: {error}.") from None


async def place_of_start(context: Context) -> Place:
    """Where it will be; the queue alone, if other sessions of the queue are returned, changed or stopped for it."""
    body: StartSession = context.body
    place = await place_of(body.queue, body.repository)
    return place if body.debounce is None and body.on_conflict == "queue" else Place(body.queue)


async def place_of(queue: str, repository: str | None) -> Place:
    """Where sessions of a queue that work in a folder are."""
    if repository is not None and not PurePosixPath(repository).is_absolute():
        raise ConfigError("The repository is a folder on the machine of the workers: give an absolute path.")
    return Place(queue, None if repository is None else await asyncio.to_thread(identify, repository))


async def fork(context: Context) -> SessionView:
    body: ForkSession = context.body
    return await context.runtime.fork(context.uid, at=body.at, id=body.id, by=context.by)


async def go_back(context: Context) -> RewindResult:
    body: RewindSession = context.body
    return await rewind(context.runtime, context.uid, to=body.to, id=body.id, by=context.by, run=False)


async def went_back(context: Context, ids: Ids) -> RewindResult:
    made = await context.runtime.get(ids["session"])
    assert context.session is not None
    return RewindResult(made, context.session.id, made.forked_at or 0, None, None, [])


async def plan(context: Context) -> list[RecoveryStep]:
    return await context.runtime.recovery_plan(context.uid)


async def state(context: Context) -> SessionState:
    query: StateQuery = context.query
    assert context.session is not None
    if query.number is not None and query.number > context.session.cursor:
        raise ConfigError(f"The session has {context.session.cursor} events, and no event {query.number}.")
    return await context.runtime.state_at(context.uid, query.number)


async def brief(context: Context) -> Brief:
    return await context.runtime.brief(context.uid)


async def diff(context: Context) -> FileDiff:
    query: DiffQuery = context.query
    return await context.runtime.diff(
        context.uid, first=query.first, last=query.last, parent=query.parent, stat=query.stat
    )


EXAMPLE = {"program": "review", "arguments": {"pr": 7}, "id": "review-7"}

OPERATIONS = (
    Operation(
        name="sessions.list", method="GET", path="/v1/sessions", verb=Verb.READ_SESSION, touches=Touch.LISTING,
        handler=listing, answer=Page[SessionRecord], query=SessionQuery,
        summary="Sessions, the most recently changed first.",
    ),
    Operation(
        name="sessions.failed", method="GET", path="/v1/failed", verb=Verb.READ_SESSION, touches=Touch.LISTING,
        handler=failed, answer=Page[SessionRecord], query=FailedQuery,
        summary="Failed sessions that are not retried any more and not archived, the most recently changed first.",
    ),
    Operation(
        name="sessions.start", method="POST", path="/v1/sessions", verb=Verb.START_SESSION, touches=Touch.PLACE,
        place=place_of_start, handler=start, answer=SessionView, body=StartSession, status=201, example=EXAMPLE,
        made=lambda result: {"session": result[0].session.uid}, again=made_again,
        summary="Start a session. A known id with equal arguments is that session.",
    ),
    Operation(
        name="sessions.get", method="GET", path="/v1/sessions/{id}", verb=Verb.READ_SESSION, touches=Touch.SESSION,
        read=get, answer=SessionView, summary="A session with its open waits, by its id or a unique prefix.",
    ),
    Operation(
        name="sessions.fork", method="POST", path="/v1/sessions/{id}/fork", verb=Verb.START_SESSION,
        touches=Touch.SESSION, handler=fork, answer=SessionView, body=ForkSession, status=201, example={"at": 12},
        made=lambda result: {"session": result.uid}, again=made_again,
        summary="Branch a session at one of its events. Nothing that was settled there is repeated.",
    ),
    Operation(
        name="sessions.rewind", method="POST", path="/v1/sessions/{id}/rewind", verb=Verb.START_SESSION,
        touches=Touch.SESSION, handler=go_back, answer=RewindResult, body=RewindSession, status=201, example={"to": 12},
        made=lambda result: {"session": result.uid}, again=went_back,
        summary="Branch an agent's session at an event, with the files as they were. A worker opens its folder.",
    ),
    Operation(
        name="sessions.plan", method="GET", path="/v1/sessions/{id}/plan", verb=Verb.READ_SESSION,
        touches=Touch.SESSION, handler=plan, answer=list[RecoveryStep],
        summary="What a run would do with each unsettled effect, and why. Nothing is done.",
    ),
    Operation(
        name="sessions.state", method="GET", path="/v1/sessions/{id}/state", verb=Verb.READ_SESSION,
        touches=Touch.SESSION, handler=state, answer=SessionState, query=StateQuery,
        summary="The state of a session after one of its events.",
    ),
    Operation(
        name="sessions.brief", method="GET", path="/v1/sessions/{id}/brief", verb=Verb.READ_SESSION,
        touches=Touch.SESSION, handler=brief, answer=Brief, summary="A handover summary, made from the record.",
    ),
    Operation(
        name="sessions.diff", method="GET", path="/v1/sessions/{id}/diff", verb=Verb.READ_ARTIFACT,
        touches=Touch.SESSION, handler=diff, answer=FileDiff, query=DiffQuery,
        summary="What an agent changed in its files, as a unified diff.",
    ),
)  # fmt: skip
