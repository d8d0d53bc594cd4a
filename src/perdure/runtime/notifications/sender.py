"""One attempt to send a notification: claimed, sent, settled.

What a crash between two lines means:

    claim     nothing was sent. When the claim ends, another process sends it
    send      the receiver may have it. When the claim ends it is sent again, with the same id
    settle    it is sent, or waits for its next attempt, or has failed

So each notification is sent at least once, and a receiver drops what comes again by its id. A process that is killed
at each attempt does not send for ever: claims are counted.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
from typing import Any
from urllib.parse import quote

from perdure import faults
from perdure.clock import SECOND
from perdure.domain.notification import MOST_ATTEMPTS, Notification, Topic
from perdure.ids import encode, new_uid
from perdure.runtime.notifications import mail, program, webhook
from perdure.runtime.notifications.channels import Channel, CommandChannel, EmailChannel, NotSent, WebhookChannel
from perdure.secrets.mask import mask_value
from perdure.store.moves import notification
from perdure.store.store import Store

logger = logging.getLogger(__name__)
LONGEST = 60.0  # seconds of one attempt: half of the claim


async def deliver(store: Store, channel: Channel, due: Notification, *, by: str) -> bool | None:
    """Send a notification that is due. Returns whether it was sent; None if another process has taken it."""
    mine = f"{by} {new_uid()}"
    taken = await store.write(notification.claim(due.id, due.channel, seen=due.next_at, by=mine))
    if taken is None:
        return None
    faults.point("notification.claimed")
    error, attempts = await _attempt(channel, taken, store.clock.now())
    faults.point("notification.sent")
    await store.write(notification.settle(due.id, due.channel, by=mine, attempts=attempts, error=error))
    if error is not None:
        level = logging.WARNING if attempts >= MOST_ATTEMPTS else logging.INFO
        logger.log(level, "Notification %s was not sent to %s: %s.", due.id, due.channel, error)
    return error is None


async def _attempt(channel: Channel, one: Notification, now: int) -> tuple[str | None, int]:
    """Why it was not sent, and how many attempts count."""
    if one.attempts > MOST_ATTEMPTS:
        return "no process has survived its attempts to send it", one.attempts
    try:
        async with asyncio.timeout(LONGEST):
            await _send(channel, one, now // SECOND)
    except TimeoutError:
        return f"it was not taken within {LONGEST:g} seconds", one.attempts
    except NotSent as error:
        return str(error), MOST_ATTEMPTS if error.final else one.attempts
    except Exception as error:  # its text may have an address or a secret
        logger.exception("A notification could not be sent.")
        return f"it could not be sent ({type(error).__name__})", one.attempts
    return None, one.attempts


async def _send(channel: Channel, one: Notification, seconds: int) -> None:
    content = content_of(one, channel.console)
    match channel:
        case WebhookChannel():
            await webhook.send(channel, one.id, encode(content).encode(), seconds=seconds)
        case CommandChannel():
            await program.send(channel, one, encode(content).encode())
        case EmailChannel():
            await mail.send(channel, one.id, content, seconds=seconds)


def content_of(one: Notification, console: str | None = None) -> dict[str, Any]:
    """What a receiver gets: the body, the commands that show more, and a link. None of them changes anything."""
    content = dict(one.body)
    about, session = content.get("about") or {}, content.get("session") or {}
    words = ["show", session["id"]] if "id" in session else ["notifications"]
    if one.topic == Topic.APPROVAL and "wait" in about:
        words = ["approvals", about["wait"]]
    elif one.topic == Topic.DOUBT and "effect" in about:
        words = ["effects", about["effect"]]
    content["commands"] = [shlex.join(["perdure", *words])]
    if console is not None:
        page = f"sessions/{quote(session['id'], safe='')}" if "id" in session else ""
        content["link"] = f"{console.rstrip('/')}/{page}"
    masked: dict[str, Any] = mask_value(content)
    return masked
