"""`perdure approve`: the vote of a person."""

from __future__ import annotations

import click

from perdure.cli.options.of_session import session_option
from perdure.cli.shell import Shell, by_option, command
from perdure.cli.vote import Width, vote


@command
@click.argument("id")
@click.option(
    "--for",
    "width",
    type=click.Choice(["once", "this", "tool"]),
    default="once",
    show_default=True,
    help="It covers this call once, exactly this call in this session, or every call of its tool in this session.",
)
@click.option("--because", metavar="TEXT", help="The reason, recorded with the vote. Some gates need one.")
@session_option
@by_option
def approve(shell: Shell, id: str, width: Width, because: str | None, session: str | None) -> None:
    """Approve the exact call that an approval is bound to.

    ID is the id of an approval, or of a session that waits for one. `perdure approvals` lists pending approvals, and
    `perdure approvals ID` shows the whole call. --for this and --for tool answer only the questions of an agent's own
    policy; a gate of a tool asks every time.
    """
    vote(shell, id, because, "approve", of=session, width=width)
