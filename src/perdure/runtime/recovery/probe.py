"""The probe of a tool: ask the outside system whether an attempt happened."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from perdure import faults
from perdure.domain.effect import Effect
from perdure.errors import ConfigError
from perdure.runtime.definitions.tool import Outcome, Tool
from perdure.runtime.description import summary, type_name
from perdure.runtime.function_call import call

if TYPE_CHECKING:
    from perdure.runtime.ledger.ledger import Ledger


async def ask_probe(ledger: Ledger, tool: Tool[..., Any], effect: Effect, number: int) -> tuple[Outcome, str | None]:
    """The probe's answer, with its result as JSON text. A probe that fails cannot tell."""
    assert tool.probe_function is not None
    context = ledger.context(effect.id, effect.idempotency_key, number)
    args, named = tool.probe_context.give(context, tool.signature.unbind_for_act(effect.intent))
    is_async = asyncio.iscoroutinefunction(tool.probe_function)
    question = call(tool.probe_function, is_async, tool.timeout, None, *args, **named)
    with ledger.host.act_site(tool).enter():
        ended = await ledger.run.see_through(question)
    faults.point("probe.after")
    if ended.error is not None or not issubclass(type(ended.value), Outcome):
        returned = f"it returned {type_name(ended.value)} and no Outcome"
        why = returned if ended.error is None else summary(ended.error)
        return Outcome.unknown(f"The probe failed: {why}."), None
    answer = ended.value.storable()
    if answer.said != "happened":
        return answer, None
    try:
        return answer, tool.signature.encode_result(answer.result)
    except ConfigError as error:
        return Outcome.unknown(f"The probe says that it happened, but {error.message}"), None
