"""The branches of a session as a graph, and two of them side by side."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from perdure.console import timeline
from perdure.console.page import ConsoleContext, ConsolePage
from perdure.console.pages.files import ChangedFile, changed
from perdure.console.pages.session import show_page
from perdure.console.plots import branch_graph
from perdure.domain.caller import Verb
from perdure.domain.session import SessionRecord
from perdure.errors import NotFound, PerdureError
from perdure.ids import encode
from perdure.server.authorization import find_session_exactly, missing
from perdure.server.operation import Touch
from perdure.store.move import StoreTransaction
from perdure.store.moves import session as sessions


class ComparedSide(msgspec.Struct, frozen=True):
    """One of two branches, from the event where they part."""

    session: SessionRecord
    after: int
    timeline: timeline.Timeline
    only_here: frozenset[int] = frozenset()  # events of entries that the other branch has not
    otherwise: frozenset[int] = frozenset()  # events of effects that have another state or result there


async def show(context: ConsoleContext) -> Response:
    def read(tx: StoreTransaction) -> branch_graph.BranchGraph:
        here = sessions.get(tx, context.uid)
        return branch_graph.family(tx, here, lambda one: context.caller.may(Verb.READ_SESSION, one))

    return await show_page(context, "branches.html", "branches", graph=await context.store.read(read))


async def compare(context: ConsoleContext) -> Response:
    name, whole = context.given("with"), context.runtime.values.whole
    find = sessions.find if context.caller.may(Verb.READ_SESSION) else find_session_exactly

    def read(tx: StoreTransaction) -> tuple[ComparedSide, ComparedSide, int | None]:
        other = find(tx, name) if name else None
        if other is None or not context.caller.may(Verb.READ_SESSION, other):
            raise missing(Touch.SESSION, name)
        here = sessions.get(tx, context.uid)
        at = branch_graph.parting(tx, here, other)
        sides = []
        for one in (here, other):
            after = at[1] if at is not None and one.uid == at[0] else 0
            lines = timeline.read(tx, one.uid, one.cursor, whole)
            kept = [entry for entry in lines.entries if entry.number > after]
            sides.append(ComparedSide(one, after, msgspec.structs.replace(lines, entries=kept)))
        return *_marked(sides[0], sides[1]), None if at is None else at[1]

    try:
        here, other, at = await context.store.read(read)
    except NotFound:
        raise missing(Touch.SESSION, name) from None
    return await show_page(
        context, "compare.html", "branches", sides=[here, other], at=at, changes=await _files(context, here, other)
    )


def _marked(one: ComparedSide, two: ComparedSide) -> tuple[ComparedSide, ComparedSide]:
    """Both sides, each with the entries that the other has not, or has otherwise."""
    return _differing(one, two), _differing(two, one)


def _differing(side: ComparedSide, other: ComparedSide) -> ComparedSide:
    there = {_key(one): _outcome(one) for one in other.timeline.entries}
    compared = [one for one in side.timeline.entries if not one.quiet]
    return msgspec.structs.replace(
        side, only_here=frozenset(one.number for one in compared if _key(one) not in there),
        otherwise=frozenset(one.number for one in compared if there.get(_key(one), _outcome(one)) != _outcome(one)),
    )  # fmt: skip


def _key(one: timeline.TimelineEntry) -> str:
    """What two entries have in common that say the same."""
    call = None if one.effect is None else [one.effect.tool, one.effect.intent_digest]
    return encode([one.kind, one.role, one.title, call, None if call else one.content])


def _outcome(one: timeline.TimelineEntry) -> str:
    return "" if one.effect is None else encode([one.effect.state, one.effect.result])


async def _files(context: ConsoleContext, here: ComparedSide, other: ComparedSide) -> list[ChangedFile]:
    """What differs in the files, where one is a branch of the other and both have snapshots."""
    for one, two in ((here, other), (other, here)):
        if one.session.forked_from == two.session.uid:
            try:
                return changed(await context.runtime.diff(one.session.uid, parent=True))
            except PerdureError:
                return []
    return []


PAGES = (
    ConsolePage("/sessions/{id}/branches", Verb.READ_SESSION, Touch.SESSION, show),
    ConsolePage("/sessions/{id}/compare", Verb.READ_SESSION, Touch.SESSION, compare, shows="transcript"),
)
