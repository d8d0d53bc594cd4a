"""`perdure tasks`: the task list of a session, as a tree."""

from __future__ import annotations

from collections.abc import Iterator

import click

from perdure.cli.shell import Shell, command
from perdure.cli.store_access import read_store
from perdure.cli.text.plain import safe, short
from perdure.domain.task import Task
from perdure.store.moves import session, task

MARKS = {"open": "[ ]", "active": "[>]", "blocked": "[!]", "done": "[x]", "dropped": "[-]"}


@command
@click.argument("id")
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=200, show_default=True, help="Maximum number to list."
)
def tasks(shell: Shell, id: str, limit: int) -> None:
    """Show the task list of a session.

    The marks are [ ] open, [>] active, [!] blocked, [x] done, [-] dropped.
    """
    with read_store(shell) as tx:
        found = session.find(tx, id)
        planned = task.of_session(tx, found.uid, limit=limit + 1)
    if shell.json:
        for one in planned[:limit]:
            shell.echo_json(one)
    elif not planned:
        shell.echo(f"Session {found.id} has no tasks.")
    else:
        shell.echo(*tree(planned[:limit]))
        if len(planned) > limit:
            shell.echo(f"These are the first {limit}. Use --limit to list more.")


def tree(planned: list[Task]) -> Iterator[str]:
    """Every task below its parent; a task whose parent is not shown is at the top level."""
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
