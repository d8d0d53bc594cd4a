"""`perdure approve`: the vote of a person."""

from __future__ import annotations

import click

from perdure.cli.shell import Shell, by_option, command
from perdure.cli.vote import vote


@command
@click.argument("id")
@click.option("--because", metavar="TEXT", required=True, help="The reason, recorded with the vote.")
@by_option
def approve(shell: Shell, id: str, because: str) -> None:
    """Approve the exact call that an approval is bound to.

    `perdure approvals` lists pending approvals.
    """
    vote(shell, id, because, "approve")
