"""`perdure facts`: what sessions remember, how old it is, and how to check it."""

from __future__ import annotations

import click

from perdure.cli.shell import Shell, command
from perdure.cli.store_access import read_store
from perdure.cli.text.grid import grid
from perdure.cli.text.plain import safe, short, value
from perdure.clock import span
from perdure.store.moves import fact

HEADINGS = ("scope", "key", "value~", "version", "verified", "by~", "check with~")


@command
@click.option("--scope", metavar="NAME", help="Only facts of this scope.")
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="Maximum number to list."
)
def facts(shell: Shell, scope: str | None, limit: int) -> None:
    """List facts that sessions remember; a fact past its age limit is marked stale."""
    with read_store(shell) as tx:
        found, now = fact.listing(tx, scope, limit=limit + 1), tx.now
    if shell.json:
        for one in found[:limit]:
            shell.echo_json(one)
        return
    if not found:
        shell.echo("There are no facts." if scope is None else f"There are no facts in the scope {safe(scope)}.")
        return
    rows = [
        [
            safe(one.scope), safe(one.key), value(one.value), str(one.version),
            f"{span(now - one.verified_at)} ago{', stale' if one.is_stale(now) else ''}", safe(one.updated_by),
            short(one.verify or ""),
        ]
        for one in found[:limit]
    ]  # fmt: skip
    shell.echo(*grid(HEADINGS, rows, width=shell.width))
    if len(found) > limit:
        shell.echo("", f"These are the first {limit}. Use --limit to list more.")
