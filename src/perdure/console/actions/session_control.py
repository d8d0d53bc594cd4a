"""What a person does with a session: send, pause, resume, interrupt, cancel, close, retry, fork, rewind."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from perdure.console.page import ConsoleContext, action, path_of
from perdure.control.branches.rewind import rewind
from perdure.domain.caller import Verb
from perdure.errors import ConfigError
from perdure.server.operation import Touch


async def send(context: ConsoleContext) -> Response:
    """Send a message; `steer` is read before the next call of the model, `queue` when the turn has ended."""
    text = context.form.get("text", "")
    mode: Any = context.field("mode") or "queue"
    if not text.strip():
        raise ConfigError("The message is empty.")
    message_id = context.field("message_id") or None  # the same form sent twice is one message
    await context.runtime.send(context.uid, text, message_id=message_id, mode=mode, by=context.by)
    return context.back("sent")


async def steer(context: ConsoleContext) -> Response:
    """Do what the button says."""
    runtime, uid, by = context.runtime, context.uid, context.by
    match context.field("do"):
        case "pause":
            await runtime.pause(uid, by=by)
            return context.back("paused")
        case "resume":
            await runtime.resume(uid, by=by)
            return context.back("resumed")
        case "interrupt":
            await runtime.interrupt(uid, by=by)
            return context.back("interrupted")
        case "cancel":
            await runtime.cancel(uid, by=by)
            return context.back("cancelled")
        case "close":
            await runtime.close_session(uid, by=by)
            return context.back("closed")
        case "retry":
            await runtime.retry(uid, by=by)
            return context.back("retried")
    raise ConfigError("This button is not known.", hint="Load the page again.")


async def fork(context: ConsoleContext) -> Response:
    """Branch the session at an event, with the files as they were where it is a rewind. A worker opens its folder."""
    text = context.field("at")
    if not text.isascii() or not text.isdigit() or len(text) > 16:
        raise ConfigError(f"{text!r:.40} is not the number of an event.")
    if context.field("do") == "rewind":
        made = (await rewind(context.runtime, context.uid, to=int(text), by=context.by, run=False)).session
    else:
        made = await context.runtime.fork(context.uid, at=int(text), by=context.by)
    return context.back("forked", to=path_of("sessions", made.id))


PAGES = (
    action("/sessions/{id}/send", Verb.SEND_MESSAGE, Touch.SESSION, send),
    action("/sessions/{id}/steer", Verb.STEER_SESSION, Touch.SESSION, steer),
    action("/sessions/{id}/fork", Verb.START_SESSION, Touch.SESSION, fork),
)
