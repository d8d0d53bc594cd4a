"""`perdure decisions`: what was decided, why, and the outcome."""

from __future__ import annotations

import click

from perdure.cli.shell import Shell, command
from perdure.cli.store_access import read_store
from perdure.cli.text.grid import grid
from perdure.cli.text.plain import safe, short
from perdure.clock import span
from perdure.store.moves import decision, session

HEADINGS = ("session", "id", "decided", "decision~", "because~", "then~", "outcome~")


@command
@click.argument("id", required=False)
@click.option("--incomplete", is_flag=True, help="Only decisions without a recorded outcome, the oldest first.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="Maximum number to list.")
def decisions(shell: Shell, id: str | None, incomplete: bool, limit: int) -> None:
    """List decisions of one session or of all: what was decided, why, and the outcome."""
    with read_store(shell) as tx:
        uid = None if id is None else session.find(tx, id).uid
        look = decision.incomplete if incomplete else decision.recent
        found = look(tx, uid, limit=limit + 1)
        now, names = tx.now, {one.session_uid: session.get(tx, one.session_uid).id for one in found}
    if shell.json:
        for one in found[:limit]:
            shell.echo_json(one)
        return
    if not found:
        shell.echo("Every decision has an outcome." if incomplete else "No decision is recorded.")
        return
    rows = [
        [
            safe(names[one.session_uid]), safe(one.id), f"{span(now - one.decided_at)} ago", short(one.decision),
            short(one.rationale), short(one.planned_action or ""), short(one.outcome or ""),
        ]
        for one in found[:limit]
    ]  # fmt: skip
    shell.echo(*grid(HEADINGS, rows, width=shell.width))
    if len(found) > limit:
        shell.echo("", f"These are the first {limit}. Use --limit to list more.")
