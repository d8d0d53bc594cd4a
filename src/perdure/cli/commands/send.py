"""`perdure send`: a message for a session, from any process."""

from __future__ import annotations

import click

from perdure.cli.shell import Shell, by_option, command


@command
@click.argument("id")
@click.argument("text")
@click.option("--id", "message_id", metavar="NAME", help="The message's own name: sent again, it is the same message.")
@click.option(
    "--mode", type=click.Choice(["queue", "steer"]), default="queue", show_default=True, help="When it is read."
)
@by_option
def send(shell: Shell, id: str, text: str, message_id: str | None, mode: str) -> None:
    """Send a message to a session, whether it runs or waits.

    Queued messages are read when it is ready for the next; one that steers is read between two acts.
    """
    from perdure.cli.store_access import run_with_runtime
    from perdure.cli.text.plain import safe
    from perdure.errors import ConfigError

    if not text.strip():
        raise ConfigError("The message is empty.", hint="Give its text.")
    if message_id is not None and not message_id.strip():
        raise ConfigError("The message's id is empty.", hint="Leave --id out, and a name is made.")
    received = run_with_runtime(
        shell, lambda runtime: runtime.send(id, text, message_id=message_id, mode=mode, by=shell.by)
    )
    if shell.json:
        shell.echo_json(received)
    else:
        state = "was read already" if received.promoted_as else "waits to be read"
        shell.echo(f"Message {safe(received.id)} from {safe(received.sender)} is in the inbox and {state}.")
