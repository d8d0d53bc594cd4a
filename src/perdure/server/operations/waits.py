"""What sessions wait for: list, and answer a question."""

from __future__ import annotations

from typing import Any

from perdure.domain.caller import Verb
from perdure.domain.literals import WaitWord
from perdure.domain.wait import Wait
from perdure.server.authorization import Sight
from perdure.server.operation import Body, Context, Ids, InSession, Operation, Touch
from perdure.server.page import Page, PageQuery, keyed_page
from perdure.store.moves import page, wait


class WaitQuery(PageQuery, frozen=True):
    """Which open waits."""

    kind: WaitWord | None = None


class AnswerWait(Body, frozen=True):
    """The answer to the question."""

    answer: Any


async def listing(context: Context) -> Page[Wait]:
    query: WaitQuery = context.query
    return await keyed_page(context, Sight(context), page.waits, (int, str, str), kind=query.kind)


async def get(context: Context) -> Wait:
    found: Wait = context.found
    return found


async def answer(context: Context) -> Wait:
    return await context.runtime.answer(context.found.id, context.body.answer, session=context.uid, by=context.by)


async def again(context: Context, _: Ids) -> Wait:
    return await context.store.read(wait.get, context.found.session_uid, context.found.id)


OPERATIONS = (
    Operation(
        name="waits.list", method="GET", path="/v1/waits", verb=Verb.READ_SESSION, touches=Touch.LISTING,
        handler=listing, answer=Page[Wait], query=WaitQuery, summary="What sessions wait for, the oldest first.",
    ),
    Operation(
        name="waits.get", method="GET", path="/v1/waits/{id}", verb=Verb.READ_SESSION, touches=Touch.WAIT,
        query=InSession,
        handler=get, answer=Wait, summary="One thing that a session waits for.",
    ),
    Operation(
        name="waits.answer", method="POST", path="/v1/waits/{id}/answer", verb=Verb.ANSWER_WAIT, touches=Touch.WAIT,
        query=InSession,
        handler=answer, answer=Wait, body=AnswerWait, again=again, example={"answer": "yes"},
        summary="Answer a question of a session.",
    ),
)  # fmt: skip
