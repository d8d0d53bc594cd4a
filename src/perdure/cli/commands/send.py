"""`perdure send`: a message to a session."""

from __future__ import annotations

import click

from perdure.cli.shell import Shell, by_option, command
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.plain import safe
from perdure.errors import ConfigError


@command
@click.argument("id")
@click.argument("text")
@click.option(
    "--id", "message_id", metavar="NAME", help="An id for the message. Sending the same id again has no effect."
)
@click.option(
    "--mode",
    type=click.Choice(["queue", "steer"]),
    default="queue",
    show_default=True,
    help="When the session reads it.",
)
@by_option
def send(shell: Shell, id: str, text: str, message_id: str | None, mode: str) -> None:
    """Send a message to a session, whether it is running or waiting.

    A queued message is read when the session asks for input; a steering message is read before its next step.
    """
    if not text.strip():
        raise ConfigError("The message is empty.", hint="Give a text.")
    if message_id is not None and not message_id.strip():
        raise ConfigError("The message id is empty.", hint="Leave --id out to have one generated.")
    received = run_with_runtime(
        shell, lambda runtime: runtime.send(id, text, message_id=message_id, mode=mode, by=shell.by)
    )
    if shell.json:
        shell.echo_json(received)
    else:
        state = "was read already" if received.promoted_as else "is not read yet"
        shell.echo(f"Message {safe(received.id)} from {safe(received.sender)} is in the inbox and {state}.")
