"""Ids that a shell completes: of sessions, effects, approvals and questions. The newest come first."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import click
from click.shell_completion import CompletionItem

from perdure.cli.shell import Shell
from perdure.cli.store_access import read_store
from perdure.cli.text.plain import intent, short
from perdure.errors import PerdureError
from perdure.store.move import StoreTransaction
from perdure.store.moves import approval, effect, session, wait

LIMIT = 50  # ids that are offered
SEARCHED = 1000  # newest effects, or open approvals and questions, that are searched
TEXT = 60  # characters of a description

Found = Iterator[tuple[str, str]]  # an id and its description


def complete_ids(kind: str, context: click.Context, incomplete: str) -> list[CompletionItem]:
    """The ids that start with the given text; an empty list if the store cannot be read."""
    try:
        with read_store(Shell(context.params.get("store"), json=True)) as tx:
            found = {id: help for id, help in KINDS[kind](tx, incomplete, context) if id.startswith(incomplete)}
    except (PerdureError, OSError):
        return []
    return [CompletionItem(id, help=short(help, TEXT)) for id, help in list(found.items())[:LIMIT]]


def _sessions(tx: StoreTransaction, prefix: str, _: click.Context) -> Found:
    for one in session.with_prefix(tx, prefix, limit=LIMIT):
        yield one.id, one.title or one.program


def _effects(tx: StoreTransaction, prefix: str, context: click.Context) -> Found:
    """Effects that the command accepts: `settle` needs one in doubt, `undo` one that was done."""
    name = context.info_name
    state = "acknowledged" if name == "undo" else None
    newest = effect.listing(tx, state=state, in_doubt=name == "settle", limit=SEARCHED)
    matching = [one for one in newest if one.id.startswith(prefix)]
    if not matching and state is None and name != "settle":
        matching = effect.with_prefix(tx, prefix, limit=LIMIT)
    for one in matching:
        yield one.id, f"{one.state}: {intent(one.tool, one.intent, TEXT)}"


def _approvals(tx: StoreTransaction, prefix: str, _: click.Context) -> Found:
    waiting = approval.listing(tx, decision="waiting", limit=SEARCHED)
    for one in waiting or approval.with_prefix(tx, prefix, limit=LIMIT):
        about = effect.get(tx, one.session_uid, one.effect_id)
        yield one.id, intent(about.tool, about.intent, TEXT)


def _votes(tx: StoreTransaction, prefix: str, context: click.Context) -> Found:
    """Pending approvals, and the sessions that have one."""
    waiting = approval.listing(tx, decision="waiting", limit=SEARCHED)
    yield from _approvals(tx, prefix, context) if waiting else ()
    for one in waiting:
        yield session.get(tx, one.session_uid).id, "a session that waits for approval"


def _questions(tx: StoreTransaction, _: str, __: click.Context) -> Found:
    """Open questions, and the sessions that asked them."""
    asked = [one for one in wait.open_waits(tx, kind="input", limit=SEARCHED) if one.ref is not None]
    about = {one.id: str((one.detail or {}).get("question", "")) for one in asked}
    yield from about.items()
    for one in asked:
        yield session.get(tx, one.session_uid).id, about[one.id]


KINDS: dict[str, Callable[[StoreTransaction, str, click.Context], Found]] = {
    "session": _sessions,
    "effect": _effects,
    "approval": _approvals,
    "vote": _votes,
    "question": _questions,
}
