"""The questions of an audit, and their answers in pages."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

import msgspec
from starlette.responses import Response

from perdure.control.audit import head as heads
from perdure.control.audit.report import AuditReport, gather
from perdure.domain.caller import Verb
from perdure.errors import ConfigError
from perdure.runtime.audit import read_range
from perdure.server.operation import Body, Context, Ids, Nothing, Number, Operation, Touch
from perdure.server.page import Limit, PageQuery, decode_key_of_any, encode_key
from perdure.store.audit import answers
from perdure.store.audit.questions import QUESTIONS
from perdure.store.moves.feed import FeedEvent

LINES = "application/jsonl"

PARAMETERS = sorted({one.name for question in QUESTIONS.values() for one in question.parameters})
AuditQuery: Any = msgspec.defstruct(
    "AuditQuery",
    [(name, str | None, None) for name in ("since", "until", *PARAMETERS)],
    bases=(PageQuery,),
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
)


class AuditPage(msgspec.Struct, frozen=True):
    """Rows of an answer; `next` is what to pass as `after`."""

    question: str
    items: list[dict[str, Any]]
    next: str | None = None


class QuestionView(msgspec.Struct, frozen=True):
    """A question, what it can be asked about, and the columns of its answer."""

    name: str
    sentence: str
    needed: list[str]
    range: str
    parameters: dict[str, str]
    columns: dict[str, str]
    indexes: list[str]


class ReportQuery(Body, frozen=True):
    """The range of time: `7d`, or a date or time in UTC."""

    since: str = "7d"
    until: str | None = None


class FeedQuery(Body, frozen=True):
    """After which position of the feed."""

    after: Number = 0
    limit: Limit = 100


class FeedPage(msgspec.Struct, frozen=True):
    """Events of every log in the order of the feed; `next` is what to pass as `after`, null at the present end."""

    items: list[FeedEvent]
    next: int | None = None


async def questions(context: Context) -> list[QuestionView]:
    return [QuestionView(**one.to_dict()) for one in context.runtime.audit_questions()]


async def head(context: Context) -> Response:
    """The head as a file, so that its root can be checked."""
    return _file(await context.runtime.audit_head())


async def record_head(context: Context) -> Response:
    made = await context.runtime.audit_head()
    await context.store.write(heads.record(made, by=context.by))
    return _file(made)


async def head_again(context: Context, _: Ids) -> Response:
    return await head(context)


def _file(made: heads.AuditHead) -> Response:
    return Response(made.file(), media_type=LINES)


async def report(context: Context) -> AuditReport:
    span = read_range(context.query.since, context.query.until, context.store.clock.now())
    return await context.store.read(gather, span)


async def feed(context: Context) -> FeedPage:
    """A page; what is new is numbered first, as for every reader of the feed."""
    query: FeedQuery = context.query
    await context.runtime.queries.access.note("transcript", None, subject="feed")
    kept: list[FeedEvent] = []
    events = cast(AsyncGenerator[FeedEvent, None], context.runtime.audit_feed(after=query.after))
    async with aclosing(events) as found:
        async for one in found:
            kept.append(one)
            if len(kept) == query.limit:
                break
    return FeedPage(kept, kept[-1].position if len(kept) == query.limit else None)


async def ask(context: Context) -> AuditPage:
    query, name = context.query, context.params["question"]
    given = {one: getattr(query, one) for one in PARAMETERS if getattr(query, one) is not None}
    after = None if query.after is None else decode_key_of_any(query.after)
    span = read_range(query.since, query.until, context.store.clock.now())
    try:
        rows = await context.store.read(answers.page, name, given, span, after=after, limit=query.limit + 1)
    except ValueError:  # its parts are of another answer
        raise ConfigError("`after` is not the `next` of a page of this answer.") from None
    kept = rows[: query.limit]
    following = encode_key(*kept[-1].key) if len(rows) > len(kept) else None
    return AuditPage(name, [one.to_dict() for one in kept], following)


OPERATIONS = (
    Operation(
        name="audit.questions", method="GET", path="/v1/audit", verb=Verb.READ_AUDIT, touches=Touch.STORE,
        handler=questions, answer=list[QuestionView], summary="The questions that can be asked.",
    ),
    Operation(
        name="audit.head", method="GET", path="/v1/audit/head", verb=Verb.READ_AUDIT, touches=Touch.STORE,
        handler=head, media=LINES, summary="The end of every log of the store, as a file to be kept elsewhere.",
    ),
    Operation(
        name="audit.record_head", method="POST", path="/v1/audit/head", verb=Verb.READ_AUDIT, touches=Touch.STORE,
        handler=record_head, media=LINES, body=Nothing, again=head_again,
        summary="The same, and the control log says that it was taken. A repetition is a new head.",
    ),
    Operation(
        name="audit.report", method="GET", path="/v1/audit/report", verb=Verb.READ_AUDIT, touches=Touch.STORE,
        handler=report, answer=AuditReport, query=ReportQuery, summary="The figures of a report on a range of time.",
    ),
    Operation(
        name="audit.feed", method="GET", path="/v1/audit/feed", verb=Verb.READ_AUDIT, touches=Touch.STORE,
        handler=feed, answer=FeedPage, query=FeedQuery, refusals=(409,),
        summary="Every committed event of every log once, in an order that never changes.",
    ),
    Operation(
        name="audit.ask", method="GET", path="/v1/audit/{question}", verb=Verb.READ_AUDIT, touches=Touch.STORE,
        handler=ask, answer=AuditPage, query=AuditQuery, refusals=(409,),
        summary="The answer to a question, a page at a time. `since` and `until`: `7d`, or a date or time in UTC.",
    ),
)  # fmt: skip
