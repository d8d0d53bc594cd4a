"""Session ids that a shell completes."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from perdure.cli.shell import Shell
from perdure.cli.store_access import read_store
from perdure.cli.text.plain import short
from perdure.errors import PerdureError
from perdure.store.moves import session

LIMIT = 50


def complete_session_ids(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The sessions whose id starts with the given text; an empty list if the store cannot be read."""
    try:
        with read_store(Shell(context.params.get("store"), json=True)) as tx:
            found = session.with_prefix(tx, incomplete, limit=LIMIT)
    except (PerdureError, OSError):
        return []
    return [CompletionItem(one.id, help=short(one.title or one.program, 60)) for one in found]
