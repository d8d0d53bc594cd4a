"""`perdure ls`: the sessions of a store, those that need a person first."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.shell import Shell, command

if TYPE_CHECKING:
    from perdure.domain.session import SessionRecord
    from perdure.domain.wait import Wait
    from perdure.store.inspection.damage import DamagedRow
    from perdure.store.move import StoreTransaction

STATUSES = ("ready", "running", "waiting", "done", "failed", "cancelled")
KINDS = ("approval", "input", "timer", "doubt", "effect", "lease", "child", "paused", "program", "policy", "quarantine")
SEALED = "nothing here: it is sealed, and goes on elsewhere"
SILENT = "nobody: its worker fell silent"
HEADINGS = ("session", "title~", "program~", "status", "waits for~", "since", "age", "cost", "owner~")
WAITS = HEADINGS.index("waits for~")
PAGE = 1000  # sessions that are read at once by a search


@command
@click.option("--status", type=click.Choice(STATUSES), help="Only sessions in this state.")
@click.option("--waiting-for", type=click.Choice(KINDS), help="Only sessions that wait for this.")
@click.option("--owner", metavar="NAME", help="Only sessions of this owner.")
@click.option("--repository", metavar="DIR", help="Only sessions on this repository.")
@click.option("--search", metavar="TEXT", help="Only sessions with this in their id, title or prompt.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="At most so many.")
def ls(
    shell: Shell, status: str | None, waiting_for: str | None, owner: str | None, repository: str | None,
    search: str | None, limit: int,
) -> None:  # fmt: skip
    """List sessions: those that need a person, then those that run, then the rest.

    Within each group the most recently moved comes first.
    """
    from perdure.cli.store_access import read_store
    from perdure.cli.text.plain import count
    from perdure.errors import Damaged
    from perdure.store.inspection.damage import records

    where = None if repository is None else os.path.abspath(repository)
    damaged: list[DamagedRow] = []
    with read_store(shell) as tx:
        asked = {"status": status, "waiting_for": waiting_for, "owner": owner, "repository": where}
        if search:
            found = searched(tx, search, limit + 1, damaged=damaged, **asked)
        else:
            found = listed(tx, limit=limit + 1, damaged=damaged, **asked)
        waits = {
            one.uid: records(tx, "wait", damaged, "wait.open_of_session", uid=one.uid, limit=PAGE)
            for one in found[:limit]
        }
        if shell.json:
            for one in found[:limit]:
                shell.echo_json(one.to_dict() | {"waits": waits[one.uid]})
        else:
            rows = [row(tx, one, waits[one.uid]) for one in found[:limit]]
            _tell(shell, rows, more=len(found) > limit, limit=limit, narrowed=bool(search or any(asked.values())))
    if damaged:
        raise Damaged(
            f"{count(len(damaged), 'row')} cannot be read. {damaged[0]}",
            hint=f"`{shell.suggest('doctor', '--deep')}` names every damaged row. The other sessions are listed above.",
        )


def _tell(shell: Shell, rows: list[tuple[list[str], bool]], *, more: bool, limit: int, narrowed: bool) -> None:
    from perdure.cli.text.grid import grid

    if not rows:
        shell.echo("No session matches." if narrowed else "There is no session yet.")
        return
    shell.echo(*grid(HEADINGS, [cells for cells, _ in rows], width=shell.width))
    silent = sum(cells[WAITS] == SILENT for cells, _ in rows)
    if more:
        shell.echo("", f"There are more; these are the first {limit}. --limit shows more.")
    if needing := sum(needs for _, needs in rows):
        said = "1 of these needs a person." if needing == 1 else f"{needing} of these need a person."
        shell.echo("", f"{said} `{shell.suggest('show', 'ID')}` says what to type.")
    if silent:
        said = "1 of these stands still." if silent == 1 else f"{silent} of these stand still."
        shell.echo("", f"{said} `{shell.suggest('resume', 'ID')}` takes it over.")


def listed(
    tx: StoreTransaction, *, status: str | None, waiting_for: str | None, owner: str | None, repository: str | None,
    limit: int, damaged: list[DamagedRow],
) -> list[SessionRecord]:  # fmt: skip
    """The sessions in the order in which somebody should look at them."""
    from perdure.store.moves import session

    narrowed: dict[str, Any] = {"owner": owner, "repository": repository, "damaged": damaged}
    if waiting_for is not None:
        return session.page(tx, status=status, waiting_for=waiting_for, limit=limit, **narrowed)
    found = session.waiting_for_person(tx, status=status, limit=limit, **narrowed)
    for wanted in ("running", None) if status is None else (status,):
        seen = {one.uid for one in found}
        page = session.page(tx, status=wanted, limit=limit + len(seen), **narrowed)
        found += [one for one in page if one.uid not in seen]
    return found[:limit]


def searched(
    tx: StoreTransaction, text: str, limit: int, *, damaged: list[DamagedRow], **narrowed: Any
) -> list[SessionRecord]:
    """Sessions with a text in their id, title or prompt, in any case; those that need a person first."""
    from perdure.store.moves import session

    wanted = text.casefold()
    found: list[SessionRecord] = []
    before: SessionRecord | None = None
    while len(found) < limit:
        page = session.page(tx, limit=PAGE, before=before, damaged=damaged, **narrowed)
        found += [one for one in page if any(wanted in word.casefold() for word in _words(one))]
        if len(page) < PAGE:
            break
        before = page[-1]
    needing = {one.uid for one in session.waiting_for_person(tx, limit=PAGE, damaged=[])}
    return sorted(found[:limit], key=lambda one: one.uid not in needing)


def _words(one: SessionRecord) -> list[str]:
    prompt = one.arguments.get("prompt") if isinstance(one.arguments, dict) else None
    return [one.id, one.title or "", prompt if isinstance(prompt, str) else ""]


def row(tx: StoreTransaction, one: SessionRecord, asked: list[Wait]) -> tuple[list[str], bool]:
    """A session's cells, and whether it needs a person."""
    from perdure.cli.text.plain import error, safe, short, span
    from perdure.cli.text.waits import summarize_waits

    waits, since, needs = ("", None, False)
    if one.status in ("ready", "running", "waiting"):
        waits, since, needs = summarize_waits(tx, asked) if one.sealed_at is None else (SEALED, one.sealed_at, False)
    elif one.status == "failed":
        waits = f"nothing; error: {short(error(one.error), 80)}"
    if one.status == "running" and one.lease_until is not None and one.lease_until < tx.now:
        waits, since = SILENT, one.lease_until
    cells = [
        safe(one.id), short(one.title or "", 60), safe(one.program), one.status, waits,
        "" if since is None else span(tx.now - since), span(tx.now - one.created_at), cost(one), safe(one.owner or ""),
    ]  # fmt: skip
    return cells, needs


def cost(one: SessionRecord) -> str:
    """What its models have cost; tokens where nobody knows the price."""
    if one.cost_micros:
        return f"${one.cost_micros / 1_000_000:.2f}"
    tokens = one.tokens_in + one.tokens_out
    return f"{tokens:,} tokens" if tokens else ""
