"""`perdure limits`: how many requests and tokens model providers accept, for all workers together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.cli.commands.queues import NONE, Limit
from perdure.cli.shell import Shell, by_option, command
from perdure.cli.subcommands import ListingCommand

if TYPE_CHECKING:
    from perdure.domain.rate_limit import RateLimit

HEADINGS = ("limit", "requests a minute", "tokens a minute", "blocked for")


@command
def ls(shell: Shell) -> None:
    """List the limits of model providers, which all workers share.

    A limit is also listed while a provider has asked for a delay: then all workers wait until that time.
    """
    from perdure.cli.store_access import read_store
    from perdure.cli.text.grid import grid
    from perdure.cli.text.plain import safe
    from perdure.clock import span
    from perdure.store.moves import rate_limit

    with read_store(shell) as tx:
        now = tx.now
        found = [one for one in rate_limit.listing(tx, limit=1_000_000) if is_shown(one, now)]
    if shell.json:
        for one in found:
            shell.echo_json(one)
        return
    if not found:
        shell.echo("There are no limits.")
        return
    rows = [
        [
            safe(one.name), str(one.requests or NONE), str(one.tokens or NONE),
            span(one.blocked_until - now) if one.blocked_until is not None and one.blocked_until > now else "",
        ]
        for one in found
    ]  # fmt: skip
    shell.echo(*grid(HEADINGS, rows, width=shell.width))


def is_shown(one: RateLimit, now: int) -> bool:
    return bool(one.requests or one.tokens or (one.blocked_until or 0) > now)


@command
@click.argument("name")
@click.option("--requests", type=Limit(1), metavar="N", help="How many requests may be sent in a minute.")
@click.option("--tokens", type=Limit(1), metavar="N", help="How many tokens may be used in a minute.")
@by_option
def set_(shell: Shell, name: str, **limits: Any) -> None:
    """Set the limits of a provider (anthropic) or of one of its models (anthropic:NAME). "none" removes a limit.

    All workers of the store keep to it together. Both limits hold for a model if it and its provider have one. Setting
    a limit also ends a delay that the provider has asked for.
    """
    from perdure.cli.store_access import run_with_runtime
    from perdure.cli.text.plain import safe

    given = {key: None if value == NONE else value for key, value in limits.items() if value is not None}
    made = run_with_runtime(shell, lambda runtime: runtime.set_rate_limit(name, by=shell.by, **given), create=True)
    if shell.json:
        shell.echo_json(made)
        return
    parts = [f"{count} {what}" for what, count in (("requests", made.requests), ("tokens", made.tokens)) if count]
    shown = f"{' and '.join(parts)} in a minute" if parts else NONE
    shell.echo(f"The limit of {safe(made.name)} is now: {shown}.")


limits = ListingCommand(ls, {"ls": ls, "set": set_})
limits.name = "limits"
