"""What a person decides: votes on approvals, verdicts on doubts, answers to questions."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response

from perdure.console.page import ConsoleContext, action
from perdure.domain.approval import Approval
from perdure.domain.caller import Verb
from perdure.domain.effect import Verdict
from perdure.domain.wait import Wait
from perdure.errors import ConfigError, Conflict
from perdure.server.operation import Touch


async def vote(context: ConsoleContext) -> Response:
    """Approve or deny. The form names the digest of the intent that the person saw."""
    row: Approval = context.found
    if context.field("digest") != row.intent_digest:
        raise Conflict("This is not the call that the page showed.", hint="Look at it again.")
    match context.field("decision"):
        case "approved":
            width: Any = context.field("remember") or "once"
            if width not in ("once", "this", "tool"):
                raise ConfigError(f"{width!r:.40} is not how wide an approval can be.")
            await context.runtime.approve(
                row.id, session=row.session_uid, by=context.by, because=context.because(), remember=width
            )
            return context.back("approved")
        case "denied":
            await context.runtime.deny(row.id, session=row.session_uid, by=context.by, because=context.because())
            return context.back("denied")
    raise ConfigError("Say whether you approve or deny.", hint="Use one of the two buttons.")


async def withdraw(context: ConsoleContext) -> Response:
    await context.runtime.withdraw(
        context.found.id, session=context.uid, by=context.by, because=context.because() or ""
    )
    return context.back("withdrawn")


async def settle(context: ConsoleContext) -> Response:
    """Give a verdict on an effect in doubt."""
    verdict: Any = context.field("verdict")
    if verdict not in set(Verdict):
        raise ConfigError("Say what happened.", hint="Choose one of the three verdicts.")
    because, result = context.because(), None
    if because is None:
        raise ConfigError("A verdict needs a reason.", hint="Say how you know.")
    if (text := context.field("result")) != "":
        try:
            result = msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise ConfigError(f"The result is not JSON: {error}.") from None
    await context.runtime.settle(
        context.found.id, verdict, session=context.uid, by=context.by, because=because,
        reference=context.field("reference") or None, result=result,
    )  # fmt: skip
    return context.back("settled")


async def answer(context: ConsoleContext) -> Response:
    """Answer a question of a session."""
    asked: Wait = context.found
    text = context.form.get("answer", "")
    if not text.strip():
        raise ConfigError("The answer is empty.", hint="Choose one, or write one.")
    await context.runtime.answer(asked.id, text, session=asked.session_uid, by=context.by)
    return context.back("answered")


PAGES = (
    action("/approvals/{id}/vote", Verb.VOTE, Touch.APPROVAL, vote),
    action("/approvals/{id}/withdraw", Verb.WITHDRAW_APPROVAL, Touch.APPROVAL, withdraw),
    action("/effects/{id}/settle", Verb.SETTLE_EFFECT, Touch.EFFECT, settle),
    action("/waits/{id}/answer", Verb.ANSWER_WAIT, Touch.WAIT, answer),
)
