"""Undo on request: undoing an effect that was acknowledged.

    request    one transaction, by any entitled user: the request is on the effect, and a waiting session is woken
    undo       the next holder of the session: the tool's undo, an effect at ["undo", effect id]; before the program
               runs again, and before the session is left
    end        its undo was acknowledged: compensated. It failed: the request is over, and the effect stays as it was

A crash between any two leaves a request that the next holder honours; the undo has the same key each time. A session
that has ended has no holder and cannot have an effect under way, so its effects can no longer be undone here. An undo
with an unknown outcome is in doubt like any other effect, and a person is asked.
"""

from __future__ import annotations

from typing import Any

from perdure.domain.effect import Effect, EffectState
from perdure.ids import decode
from perdure.runtime.definitions.tool import Tool
from perdure.runtime.ledger.ledger import Ledger
from perdure.store.moves import doubt


async def take_back(ledger: Ledger, tool: Tool[..., Any], effect: Effect) -> None:
    """Honour a request to undo an effect."""
    run = ledger.run
    if tool.undo_tool is None:
        await run.write(doubt.record_undo_failure(run.holder, effect.id, f"Tool {tool.name} has no undo."))
        return
    effect = run.runtime.values.whole(effect)
    result = decode(run.runtime.values.get(effect.result, effect.artifact))
    earlier = await run.read(doubt.undos, effect)
    generation = sum(one.state in (EffectState.FAILED, EffectState.REFUSED) for one in earlier)
    undoing = await ledger.recovery.undo(tool, effect, result, None, generation=generation)
    if undoing.state == EffectState.ACKNOWLEDGED:
        run.wake_branches(
            await run.write(doubt.record_compensation(run.holder, effect.id, by_effect=undoing.id)), at_once=True
        )
    else:
        why = (undoing.error or {}).get("message") or undoing.state
        await run.write(doubt.record_undo_failure(run.holder, effect.id, f"Its undo {undoing.id} failed: {why}"))
