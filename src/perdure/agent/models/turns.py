"""Turns in a form that every provider accepts.

A provider refuses a whole request because of one call without a result, one name with a dot, or one empty text. The
same transcript would be sent again, so the session could never recover.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from perdure.agent.model import Offer, Request, ToolCall, Turn
from perdure.agent.models.text import clean
from perdure.errors import ConfigError

UNANSWERED = "The outcome of this call was not recorded."
BEGIN = "Begin."
CONTINUE = "Continue."

_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")


def well_formed(turns: Iterable[Turn]) -> list[Turn]:
    """The turns with a result directly after each call, nothing empty, and a user turn first and last."""
    shaped: list[Turn] = []
    open_calls: dict[str, ToolCall] = {}

    def answer_the_rest() -> None:
        shaped.extend(Turn("tool", text=UNANSWERED, call=id, failed=True) for id in open_calls)
        open_calls.clear()

    for turn in turns:
        if turn.role == "tool":
            if open_calls.pop(turn.call, None) is not None:
                shaped.append(turn)
            continue
        answer_the_rest()
        calls = turn.calls if turn.role == "assistant" else ()
        if not turn.text.strip() and not calls:
            continue
        if turn.role == "assistant" and not shaped:
            shaped.append(Turn("user", text=BEGIN))
        shaped.append(turn)
        open_calls.update((call.id, call) for call in calls)
    answer_the_rest()
    if not shaped or shaped[-1].role == "assistant":
        shaped.append(Turn("user", text=CONTINUE if shaped else BEGIN))
    return shaped


def wire_name(name: str) -> str:
    """A tool's name in characters that every provider accepts."""
    return _NOT_IN_A_NAME.sub("_", name)[:64] or "_"


def wire_id(id: str) -> str:
    return _NOT_IN_A_NAME.sub("_", id)[:64]


def wire_object(call: ToolCall) -> dict[str, Any]:
    """A call's arguments as an object, even if the model did not send one."""
    return call.arguments if isinstance(call.arguments, dict) else {"not_json": clean(call.arguments)}


def wire_names(offers: Iterable[Offer]) -> dict[str, str]:
    """The name of each tool as it is sent, and its own name."""
    names: dict[str, str] = {}
    for offer in offers:
        there = names.setdefault(wire_name(offer.name), offer.name)
        if there != offer.name:
            raise ConfigError(
                f"The tools {there} and {offer.name} have the same name for a model.", hint="Rename one of them."
            )
    return names


def offers_of(request: Request) -> tuple[Offer, ...]:
    """The tools offered, or if there are none, those that were called before, which a provider requires."""
    if request.tools:
        return request.tools
    called = {call.name for turn in request.turns for call in turn.calls}
    return tuple(Offer(name, "No longer offered.", {"type": "object"}) for name in sorted(called))
