"""`perdure decisions settle`: a person records the outcome of a decision."""

from __future__ import annotations

import click

from perdure.cli.shell import Shell, by_option, command
from perdure.cli.subcommands import ListingCommand


@command
@click.argument("id")
@click.argument("decision")
@click.argument("outcome")
@by_option
def settle(shell: Shell, id: str, decision: str, outcome: str) -> None:
    """Record the outcome of a decision of an agent, or of a program that has ended.

    DECISION is the id of a decision of session ID or a unique prefix of it. An outcome is recorded once.
    """
    from perdure.cli.store_access import run_with_runtime
    from perdure.cli.text.plain import safe, short

    made = run_with_runtime(shell, lambda runtime: runtime.settle_decision(id, decision, outcome, by=shell.by))
    if shell.json:
        shell.echo_json(made)
    else:
        shell.echo(f"The outcome of decision {safe(made.id)} is recorded: {short(made.outcome or '')}")


def extend(listing: click.Command) -> ListingCommand:
    """The listing of decisions with its subcommand."""
    return ListingCommand(listing, {"settle": settle})
