"""The files that an agent's effect changed, as far as the snapshots show.

A snapshot is taken once for all calls of one answer of the model, so the change is that of the effect and of the calls
beside it.
"""

from __future__ import annotations

from perdure.control.branches.files import FileDiff, diff
from perdure.domain.effect import Effect
from perdure.runtime.runtime import Runtime
from perdure.store.move import StoreTransaction
from perdure.store.moves import message

CALLS = 1000  # lines after an effect among which the results of its answer are


class EffectFiles(FileDiff, frozen=True):
    """What changed in the files from before an effect until its result was recorded."""

    calls: int = 1  # calls of the same answer, this one included


async def files_changed(runtime: Runtime, effect: Effect, *, stat: bool = False) -> EffectFiles | None:
    """What an effect changed in the files of its session; None if no snapshot was taken after it."""
    last, calls = await runtime.store.read(_end_of_calls, effect)
    if last is None:
        return None
    found = await diff(runtime, effect.session_uid, first=effect.number, last=last, stat=stat)
    return EffectFiles(found.before, found.after, found.text, calls)


def _end_of_calls(tx: StoreTransaction, effect: Effect) -> tuple[int | None, int]:
    """The line with the snapshot that was taken after an effect, and how many calls it covers."""
    if not isinstance(effect.position, list) or effect.position[0] != "call":
        return None, 0
    results = [
        line
        for line in message.lines_between(tx, effect.session_uid, effect.number, limit=CALLS)
        if isinstance(line.body, dict) and line.body.get("of") == effect.position[1:3]
    ]
    taken = [line.number for line in results if line.body.get("snapshot")]
    return (taken[-1] if taken else None), len(results)
