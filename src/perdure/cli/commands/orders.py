"""`perdure orders`: standing orders, which agents read before each answer."""

from __future__ import annotations

import os

import click

from perdure.cli.shell import Shell, by_option, command
from perdure.cli.subcommands import ListingCommand

HEADINGS = ("order", "for~", "text~", "given", "by~")
EVERYWHERE = "every agent"


@command
@click.option("--repo", metavar="DIR", default=".", show_default=True, help="Those for agents of this repository.")
@click.option("--all", "everything", is_flag=True, help="The orders of every repository.")
def ls(shell: Shell, repo: str, everything: bool) -> None:
    """List the standing orders for agents of a repository, and those for every agent."""
    from perdure.cli.store_access import read_store
    from perdure.cli.text.grid import grid
    from perdure.cli.text.plain import safe, value
    from perdure.clock import span
    from perdure.domain.fact import ORDERS, orders_scope
    from perdure.store.moves import fact, session

    where = os.path.abspath(repo)
    with read_store(shell) as tx:
        known = {orders_scope(one): one for one in [*session.repositories(tx), where]} | {ORDERS: EVERYWHERE}
        found, now = fact.listing(tx, limit=1_000_000) if everything else fact.orders(tx, where), tx.now
    found = [one for one in found if one.scope.partition(":")[0] == ORDERS]
    if shell.json:
        for one in found:
            repository = None if one.scope == ORDERS else known.get(one.scope)
            shell.echo_json(one.to_dict() | {"repository": repository})
        return
    if not found:
        shell.echo(
            "There are no standing orders." if everything else f"There are no standing orders for {safe(where)}."
        )
        return
    rows = [
        [
            safe(one.key), safe(known.get(one.scope, one.scope)), value(one.value), f"{span(now - one.updated_at)} ago",
            safe(one.updated_by),
        ]
        for one in found
    ]  # fmt: skip
    shell.echo(*grid(HEADINGS, rows, width=shell.width))


@command
@click.argument("text")
@click.option("--name", metavar="NAME", help="Its name. An order with the same name is replaced.")
@click.option("--repo", metavar="DIR", default=".", show_default=True, help="For agents of this repository.")
@click.option("--everywhere", is_flag=True, help="For every agent of this store.")
@by_option
def add(shell: Shell, text: str, name: str | None, repo: str, everywhere: bool) -> None:
    """Give a standing order to every agent of a repository.

    Agents read it before each answer, from their next one on. It holds for sessions whose repository is exactly this
    folder, as `perdure run --repo` records it, and for their branches.
    """
    from perdure.cli.store_access import run_with_runtime
    from perdure.cli.text.plain import safe

    where = None if everywhere else os.path.abspath(repo)
    made = run_with_runtime(
        shell, lambda runtime: runtime.add_order(text, name=name, repository=where, by=shell.by), create=True
    )
    if shell.json:
        shell.echo_json(made.to_dict() | {"repository": where})
        return
    place = EVERYWHERE if where is None else f"agents of {safe(where)}"
    shell.echo(f"The standing order {safe(made.key)} for {place} is recorded, version {made.version}.")


@command
@click.argument("name")
@click.option("--repo", metavar="DIR", default=".", show_default=True, help="An order for agents of this repository.")
@click.option("--everywhere", is_flag=True, help="An order for every agent of this store.")
def rm(shell: Shell, name: str, repo: str, everywhere: bool) -> None:
    """Remove a standing order."""
    from perdure.cli.store_access import run_with_runtime
    from perdure.cli.text.plain import safe

    where = None if everywhere else os.path.abspath(repo)
    was = run_with_runtime(shell, lambda runtime: runtime.remove_order(name, repository=where))
    if shell.json:
        shell.echo_json(was.to_dict() | {"repository": where})
    else:
        shell.echo(f"The standing order {safe(was.key)} is removed.")


orders = ListingCommand(ls, {"ls": ls, "add": add, "rm": rm})
orders.name = "orders"
