"""What is asked of one session: send, resume, cancel, pause, interrupt, close, rename, retry, archive, remove.

Each is a request that the session's holder honours, or one move under the lock of its row. The service runs no session.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from perdure.domain.caller import Verb
from perdure.domain.inbox import InboxMessage
from perdure.domain.literals import MessageMode
from perdure.errors import NotFound
from perdure.runtime.queries import SessionView
from perdure.server.operation import Body, Context, Ids, Nothing, Operation, Touch
from perdure.server.operations.sessions import again
from perdure.store.moves import inbox
from perdure.store.moves.session_removal import Removal


class SendMessage(Body, frozen=True):
    """A message: a text, or a value of the type that the program receives. The same id again is the same message."""

    text: Any
    message_id: str | None = None
    mode: MessageMode = "queue"


class CancelSession(Body, frozen=True):
    """With `now`, what is under way is stopped immediately."""

    now: bool = False


class RenameSession(Body, frozen=True):
    """The new title."""

    title: str


class ArchiveSession(Body, frozen=True):
    """With `undo`, the session is shown in lists again."""

    undo: bool = False


class ChooseModel(Body, frozen=True):
    """The model that an agent uses from its next call on."""

    model: str


class RemoveSession(Body, frozen=True):
    """Why the content is forgotten."""

    because: str


async def send(context: Context) -> InboxMessage:
    body: SendMessage = context.body
    return await context.runtime.send(context.uid, body.text, message_id=body.message_id, mode=body.mode, by=context.by)


async def sent(context: Context, ids: Ids) -> InboxMessage:
    found = await context.store.read(inbox.get, context.uid, ids["message"])
    if found is None:
        raise NotFound(f"Message {ids['message']} was removed.")
    return found


async def resume(context: Context) -> SessionView:
    return await context.runtime.resume(context.uid, by=context.by)


async def cancel(context: Context) -> SessionView:
    return await context.runtime.cancel(context.uid, by=context.by, now=context.body.now)


async def pause(context: Context) -> SessionView:
    return await context.runtime.pause(context.uid, by=context.by)


async def interrupt(context: Context) -> SessionView:
    return await context.runtime.interrupt(context.uid, by=context.by)


async def close(context: Context) -> SessionView:
    return await context.runtime.close_session(context.uid, by=context.by)


async def rename(context: Context) -> SessionView:
    return await context.runtime.rename(context.uid, context.body.title, by=context.by)


async def retry(context: Context) -> SessionView:
    return await context.runtime.retry(context.uid, by=context.by)


async def archive(context: Context) -> SessionView:
    return await context.runtime.archive(context.uid, undo=context.body.undo, by=context.by)


async def unpin(context: Context) -> SessionView:
    return await context.runtime.unpin(context.uid, by=context.by)


async def set_model(context: Context) -> SessionView:
    return await context.runtime.set_model(context.uid, context.body.model, by=context.by)


async def remove(context: Context) -> Removal:
    return await context.runtime.remove(context.uid, because=context.body.because, by=context.by)


async def removed(context: Context, _: Ids) -> Removal:
    return await context.runtime.removal(context.uid)  # refused: it was removed


async def removal(context: Context) -> Removal:
    return await context.runtime.removal(context.uid)


def _request(
    name: str, handler: Callable[[Context], Awaitable[Any]], summary: str, body: type[Body] = Nothing, **more: Any
) -> Operation:
    return Operation(
        name=f"sessions.{name}", method="POST", path=f"/v1/sessions/{{id}}/{name}", touches=Touch.SESSION,
        handler=handler, answer=more.pop("answer", SessionView), body=body, summary=summary,
        verb=more.pop("verb", Verb.STEER_SESSION), again=more.pop("again", again), **more,
    )  # fmt: skip


OPERATIONS = (
    _request(
        "send", send, "Send a message to a session.", SendMessage, verb=Verb.SEND_MESSAGE, answer=InboxMessage,
        example={"text": "also check the docs", "mode": "steer"}, again=sent,
        made=lambda result: {"message": result.id},
    ),
    _request(
        "resume", resume, "Let a session continue that was paused, or whose workers crashed or had other code.",
        children_first=True,
    ),
    _request("cancel", cancel, "Ask a session and its children to stop.", CancelSession, example={"now": False}),
    _request("pause", pause, "Ask a session to pause between acts."),
    _request("interrupt", interrupt, "Stop what a session does now; then it waits for a person."),
    _request("close", close, "End an agent's session that waits for the next message.", decisive="session_end.close"),
    _request("rename", rename, "Give a session another title.", RenameSession, example={"title": "Fix the build"}),
    _request(
        "retry", retry, "Let a failed session run again in place. Nothing that was settled is repeated.",
        children_first=True,
    ),
    _request("archive", archive, "Hide a session from lists, or show it again.", ArchiveSession, example={}),
    _request("unpin", unpin, "Let workers of any version of the code run a pinned session."),
    _request(
        "model", set_model, "Choose another model for an agent.", ChooseModel,
        example={"model": "anthropic:claude-sonnet-4-5"},
    ),
    _request(
        "remove", remove, "Forget the content of a session that has ended. Its id is not used again.", RemoveSession,
        verb=Verb.REMOVE_SESSION, example={"because": "the customer asked for it"}, answer=Removal, again=removed,
    ),
    Operation(
        name="sessions.removal", method="GET", path="/v1/sessions/{id}/removal", verb=Verb.REMOVE_SESSION,
        touches=Touch.SESSION, handler=removal, answer=Removal, summary="What a removal would forget.",
    ),
)  # fmt: skip
