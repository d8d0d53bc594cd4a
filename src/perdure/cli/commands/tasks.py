"""`perdure tasks`: a session's plan, as a tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from perdure.cli.shell import Shell, command

if TYPE_CHECKING:
    from perdure.domain.task import Task

MARKS = {"open": "[ ]", "active": "[>]", "blocked": "[!]", "done": "[x]", "dropped": "[-]"}


@command
@click.argument("id")
@click.option("--limit", type=click.IntRange(1, 100_000), default=200, show_default=True, help="At most so many.")
def tasks(shell: Shell, id: str, limit: int) -> None:
    """Show a session's plan: what is open, active, blocked, done and dropped.

    The marks are [ ] open, [>] active, [!] blocked, [x] done, [-] dropped.
    """
    from perdure.cli.store_access import read_store
    from perdure.store.moves import session, task

    with read_store(shell) as tx:
        found = session.find(tx, id)
        planned = task.of_session(tx, found.uid, limit=limit + 1)
    if shell.json:
        for one in planned[:limit]:
            shell.echo_json(one)
    elif not planned:
        shell.echo(f"Session {found.id} has no plan.")
    else:
        shell.echo(*tree(planned[:limit]))
        if len(planned) > limit:
            shell.echo(f"There are more; these are the first {limit}. --limit shows more.")


def tree(planned: list[Task]) -> Iterator[str]:
    """Every task below its parent; one whose parent is not shown stands at the top."""
    from perdure.cli.text.plain import safe, short

    ids = {one.id for one in planned}
    below: dict[str | None, list[Task]] = {}
    for one in planned:
        below.setdefault(one.parent_id if one.parent_id in ids else None, []).append(one)
    waiting = [(one, 0) for one in reversed(below.get(None, []))]
    while waiting:
        one, depth = waiting.pop()
        note = f" ({short(one.note)})" if one.note else ""
        yield f"{'    ' * depth}{MARKS.get(one.state, '[?]')} {short(one.title)}  {safe(one.id)}{note}"
        waiting += [(child, depth + 1) for child in reversed(below.get(one.id, []))]
