"""The transcript as every provider takes it: what they all refuse is put right here, once.

A provider refuses a whole request for one call without an answer, one name with a dot, one empty text; and because
the same transcript is sent again, the session would never get out of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from perdure.agent.model import Offer, Request, ToolCall, Turn
from perdure.agent.models.text import clean
from perdure.errors import ConfigError

UNANSWERED = "What came of this call was not recorded."
BEGIN = "Begin."
GO_ON = "Go on."

_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")


def well_formed(turns: Iterable[Turn]) -> list[Turn]:
    """The turns with every call answered right after it, nothing empty, a user at the start and nobody's at the end."""
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
        shaped.append(Turn("user", text=GO_ON if shaped else BEGIN))
    return shaped


def wire_name(name: str) -> str:
    """A tool's name in the letters that every provider takes."""
    return _NOT_IN_A_NAME.sub("_", name)[:64] or "_"


def wire_id(id: str) -> str:
    return _NOT_IN_A_NAME.sub("_", id)[:64]


def wire_object(call: ToolCall) -> dict[str, Any]:
    """A call's arguments as an object, whatever the model had made of them."""
    return call.arguments if isinstance(call.arguments, dict) else {"not_json": clean(call.arguments)}


def wire_names(offers: Iterable[Offer]) -> dict[str, str]:
    """What each tool is called on the wire, and what it is called here."""
    names: dict[str, str] = {}
    for offer in offers:
        there = names.setdefault(wire_name(offer.name), offer.name)
        if there != offer.name:
            raise ConfigError(
                f"A model cannot tell the tools {there} and {offer.name} apart.", hint="Rename one of them."
            )
    return names


def offers_of(request: Request) -> tuple[Offer, ...]:
    """The tools offered; where none are, those that were called before: a provider wants to know what they were."""
    if request.tools:
        return request.tools
    called = {call.name for turn in request.turns for call in turn.calls}
    return tuple(Offer(name, "No longer offered.", {"type": "object"}) for name in sorted(called))
