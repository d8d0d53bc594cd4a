"""`perdure ls`: the sessions of a store, those that need a person first."""

from __future__ import annotations

import os
from typing import Any

import click

from perdure.cli.shell import UNBOUNDED, RenamedOption, Shell, command
from perdure.cli.store_access import lost_sessions, read_store
from perdure.cli.text.grid import grid
from perdure.cli.text.plain import count, error, safe, short
from perdure.cli.text.waits import resume_line, summarize_waits
from perdure.clock import span
from perdure.config import default_store
from perdure.control.session_list import PAGE, list_sessions, search_sessions
from perdure.domain.session import SessionRecord
from perdure.domain.wait import Wait, WaitKind
from perdure.errors import Damaged
from perdure.store.databases.sqlite.location import check_not_missing
from perdure.store.move import StoreTransaction
from perdure.store.moves import session
from perdure.store.row_check import DamagedRow, records

STATUSES = ("ready", "running", "waiting", "done", "failed", "cancelled")
KINDS = tuple(map(str, WaitKind))
SEALED = "nothing here: it is sealed, and continues elsewhere"
SILENT = "a worker: its lease has expired"
LOST = "lost, resumable"
HEADINGS = ("session", "title~", "program~", "status", "waits for~", "since", "age", "cost", "owner~")
WAITS = HEADINGS.index("waits for~")
OPTIONAL = ("title~", "since", "cost", "owner~")
NO_SESSIONS = 'There are no sessions yet. `perdure run "PROMPT"` starts one; `perdure demo` shows what happens.'


@command
@click.option("--status", type=click.Choice(STATUSES), help="Only sessions in this state.")
@click.option("--failed", "status", flag_value="failed", help="Only failed sessions; they are not retried any more.")
@click.option("--waiting-for", type=click.Choice(KINDS), help="Only sessions that wait for this.")
@click.option("--owner", metavar="NAME", help="Only sessions of this owner.")
@click.option(
    "--repo", "--repository", "repository", metavar="DIR", cls=RenamedOption, help="Only sessions on this repository."
)
@click.option("--archived", "archived", flag_value="only", default=None, help="Only archived sessions.")
@click.option("--all", "archived", flag_value="with", help="Archived sessions too.")
@click.option("--search", metavar="TEXT", help="Only sessions with this text in their id, title or prompt.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="Maximum number to list.")
def ls(
    shell: Shell, status: str | None, waiting_for: str | None, owner: str | None, repository: str | None,
    archived: str | None, search: str | None, limit: int,
) -> None:  # fmt: skip
    """List sessions: those that need a person, then those that run, then the rest.

    Within each group, the most recently active session comes first.
    """
    if shell.store is None and not default_store().exists():  # a new machine
        check_not_missing(default_store())
        if not shell.json:
            shell.echo(NO_SESSIONS)
        return
    where = None if repository is None else os.path.abspath(repository)
    damaged: list[DamagedRow] = []
    with read_store(shell) as tx:
        filters: dict[str, Any] = {"status": status, "waiting_for": waiting_for, "owner": owner, "repository": where}
        filters["archived"] = {"only": session.ONLY_ARCHIVED, "with": session.WITH_ARCHIVED}.get(str(archived), 0)
        if search:
            found = search_sessions(tx, search, limit=limit + 1, damaged=damaged, **filters)
        else:
            found = list_sessions(tx, limit=limit + 1, damaged=damaged, **filters)
        waits = {
            one.uid: records(tx, "wait", damaged, "wait.open_of_session", uid=one.uid, limit=PAGE)
            for one in found[:limit]
        }
        lost = lost_sessions(tx, shell, found[:limit])
        if shell.json:
            for one in found[:limit]:
                shell.echo_json(one.to_dict() | {"waits": waits[one.uid], "lost": one.uid in lost})
        else:
            rows = [row(tx, one, waits[one.uid], is_lost=one.uid in lost) for one in found[:limit]]
            none = "No session matches." if search or any(filters.values()) else nothing_listed(tx, shell)
            show_rows(shell, rows, more=len(found) > limit, limit=limit, none=none)
            show_lost(shell, [one for one in found[:limit] if one.uid in lost])
    if damaged:
        raise Damaged(
            f"{count(len(damaged), 'row')} cannot be read. {damaged[0]}",
            hint=f"`{shell.suggest('doctor', '--deep')}` lists every damaged row. The other sessions are listed above.",
        )


def nothing_listed(tx: StoreTransaction, shell: Shell) -> str:
    if session.page(tx, archived=session.ONLY_ARCHIVED, limit=1, damaged=[]):
        return f"Every session is archived. `{shell.suggest('ls', '--archived')}` lists them."
    return NO_SESSIONS


def show_rows(shell: Shell, rows: list[tuple[list[str], bool]], *, more: bool, limit: int, none: str) -> None:
    if not rows:
        shell.echo(none)
        return
    shell.echo(*table(shell, [cells for cells, _ in rows]))
    silent = sum(cells[WAITS] == SILENT for cells, _ in rows)
    if more:
        shell.echo("", f"These are the first {limit}. Use --limit to list more.")
    if needing := sum(needs for _, needs in rows):
        verb = "needs" if needing == 1 else "need"
        shell.echo("", f"{needing} of these {verb} a person. `{shell.suggest('show', 'ID')}` shows what to type.")
    if silent:
        verb = "has lost its worker" if silent == 1 else "have lost their workers"
        shell.echo("", f"{silent} of these {verb}. `{shell.suggest('resume', 'ID')}` takes a session over.")


def show_lost(shell: Shell, lost: list[SessionRecord]) -> None:
    if lost:
        names = " and ".join(safe(one.id) for one in lost[:3])
        shell.echo("", f"The process of {names} has died; nothing that was recorded is lost. Continue with")
        shell.echo(*(f"  {resume_line(shell, one)}" for one in lost))


def table(shell: Shell, rows: list[list[str]]) -> list[str]:
    """The lines of the table. On a terminal, a column without any content leaves its room to the others."""
    empty = {
        place
        for place, heading in enumerate(HEADINGS)
        if shell.width < UNBOUNDED and heading in OPTIONAL and not any(cells[place] for cells in rows)
    }
    shown = [place for place in range(len(HEADINGS)) if place not in empty]
    return grid(
        [HEADINGS[place] for place in shown], [[cells[place] for place in shown] for cells in rows], width=shell.width
    )


def row(tx: StoreTransaction, one: SessionRecord, asked: list[Wait], *, is_lost: bool) -> tuple[list[str], bool]:
    """The cells of a session, and whether it needs a person. `is_lost`: its process on this machine has died."""
    waits, since, needs = ("", None, False)
    if one.status in ("ready", "running", "waiting"):
        waits, since, needs = summarize_waits(tx, asked) if one.sealed_at is None else (SEALED, one.sealed_at, False)
    elif one.status == "failed":
        waits = f"nothing; error: {short(error(one.error), 80)}"
    if is_lost:
        waits, since = LOST, one.updated_at
    elif one.status == "running" and one.lease_until is not None and one.lease_until < tx.now:
        waits, since = SILENT, one.lease_until
    cells = [
        safe(one.id), short(one.title or ""), safe(one.program), one.status, waits,
        "" if since is None else span(tx.now - since), span(tx.now - one.created_at), cost(one), safe(one.owner or ""),
    ]  # fmt: skip
    return cells, needs


def cost(one: SessionRecord) -> str:
    """The cost of its model calls; tokens if the price is unknown."""
    if one.cost_micros:
        return f"${one.cost_micros / 1_000_000:.2f}"
    tokens = one.tokens_in + one.tokens_out
    return f"{tokens:,} tokens" if tokens else ""
