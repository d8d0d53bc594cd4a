"""The ledger: what was done to the world outside, by target, tool and outcome."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response

from perdure.console.page import ConsoleContext, ConsolePage
from perdure.domain.caller import Verb
from perdure.domain.effect import Effect, EffectReach, EffectState
from perdure.domain.session import SessionRecord
from perdure.errors import ConfigError
from perdure.server.operation import Touch
from perdure.server.page import decode_key, encode_key
from perdure.store.move import StoreTransaction
from perdure.store.moves import effect as effects
from perdure.store.moves import session as sessions

SHOWN = 100
READ = 500
SEARCHED = 20_000  # effects that one request reads at most
OUTSIDE = (EffectReach.OUTSIDE, None)  # rows without a reach are older than it, and count as outside


class LedgerLine(msgspec.Struct, frozen=True):
    """One effect of the ledger, and its session."""

    effect: Effect
    session: SessionRecord


async def show(context: ConsoleContext) -> Response:
    filters = {name: context.given(name) for name in ("target", "tool", "state", "reach", "after")}
    found, following, is_whole = await context.store.read(_read, context, filters)
    shown = [msgspec.structs.replace(one, effect=context.runtime.values.shown(one.effect)) for one in found]
    return context.show(
        "ledger.html", lines=shown, next=following, filters=filters, is_whole=is_whole,
        states=[str(one) for one in EffectState], reaches=[str(one) for one in EffectReach],
    )  # fmt: skip


def _read(
    tx: StoreTransaction, context: ConsoleContext, filters: dict[str, str]
) -> tuple[list[LedgerLine], str | None, bool]:
    """A page of effects, where the next one begins, and whether all were read."""
    kept: list[LedgerLine] = []
    before, places, read = _start(tx, filters["after"]), dict[str, SessionRecord](), 0
    asked: Any = {name: filters[name] or None for name in ("state", "tool", "target")}
    while found := effects.listing(tx, **asked, before=before, limit=READ):
        for before in found:
            read += 1
            if not _fits(before, filters["reach"]):
                continue
            place = places.setdefault(before.session_uid, sessions.get(tx, before.session_uid))
            if context.caller.may(Verb.READ_EFFECT, place):
                if len(kept) == SHOWN:
                    return kept, encode_key(kept[-1].effect.session_uid, kept[-1].effect.id), True
                kept.append(LedgerLine(before, place))
        if read >= SEARCHED and before is not None:
            return kept, encode_key(before.session_uid, before.id), False
    return kept, None, True


def _fits(one: Effect, reach: str) -> bool:
    return reach == "all" or (one.reach == reach if reach else one.reach in OUTSIDE)


def _start(tx: StoreTransaction, after: str) -> Effect | None:
    if not after:
        return None
    try:
        uid, id = decode_key(after, str, str)
    except ConfigError:
        raise ConfigError("This page of the ledger does not exist.", hint="Begin with the first one.") from None
    return effects.get_or_none(tx, str(uid), str(id))


PAGES = (ConsolePage("/ledger", Verb.READ_EFFECT, Touch.LISTING, show),)
