"""`perdure deny`: the vote of a person."""

from __future__ import annotations

import click

from perdure.cli.options.of_session import session_option
from perdure.cli.shell import Shell, by_option, command
from perdure.cli.vote import vote


@command
@click.argument("id")
@click.option("--because", metavar="TEXT", help="The reason, which an agent's model is told. Some gates need one.")
@session_option
@by_option
def deny(shell: Shell, id: str, because: str | None, session: str | None) -> None:
    """Deny the call that an approval is bound to.

    ID is the id of an approval, or of a session that waits for one. `perdure approvals` lists pending approvals.
    """
    vote(shell, id, because, "deny", of=session)
