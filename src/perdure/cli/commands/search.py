"""`perdure search`: what sessions said and did, by words."""

from __future__ import annotations

import click

from perdure.cli.shell import Shell, command
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.grid import grid
from perdure.cli.text.plain import safe, short
from perdure.clock import format_time
from perdure.domain.search import SearchHit
from perdure.runtime.runtime import Runtime

HEADINGS = ("session", "event", "time", "kind", "text~")


@command
@click.argument("text", nargs=-1, required=True)
@click.option("--session", metavar="ID", help="Only events of this session.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="Maximum number to list.")
def search(shell: Shell, text: tuple[str, ...], session: str | None, limit: int) -> None:
    """Search what sessions said and did: titles, prompts, messages, decisions and outputs.

    An event must contain every word; a word may be the beginning of one. Put words that follow one another in quotes:
    perdure search '"git push" main'. The newest events come first.
    """
    hits = run_with_runtime(shell, lambda runtime: read_hits(runtime, " ".join(text), session, limit + 1))
    if shell.json:
        for one in hits[:limit]:
            shell.echo_json(one)
        return
    if not hits:
        shell.echo("No session contains these words.")
        return
    rows = [
        [safe(one.session_id), str(one.number or ""), format_time(one.at), one.kind, short(one.text, 200)]
        for one in hits[:limit]
    ]
    shell.echo(*grid(HEADINGS, rows, width=shell.width))
    if len(hits) > limit:
        shell.echo("", f"These are the first {limit}. Use --limit to list more.")
    shell.echo("", f"`{shell.suggest('show', 'ID', '--at', 'EVENT')}` shows the session at an event.")


async def read_hits(runtime: Runtime, text: str, session: str | None, limit: int) -> list[SearchHit]:
    found: list[SearchHit] = []
    async for one in runtime.search(text, session=session):
        found.append(one)
        if len(found) == limit:
            break
    return found
