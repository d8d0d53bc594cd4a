"""`perdure deny`: a person's vote."""

from __future__ import annotations

import click

from perdure.cli.shell import Shell, by_option, command


@command
@click.argument("id")
@click.option("--because", metavar="TEXT", required=True, help="Why; it is kept with the vote.")
@by_option
def deny(shell: Shell, id: str, because: str) -> None:
    """Say no to what an approval asks for.

    `perdure approvals` lists what waits.
    """
    from perdure.cli.vote import vote

    vote(shell, id, because, "deny")
