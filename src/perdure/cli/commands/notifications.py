"""`perdure notifications`: what people are told outside Perdure, and what could not be sent."""

from __future__ import annotations

from typing import Any

import click

from perdure.cli.shell import Shell, by_option, command
from perdure.cli.subcommands import ListingCommand
from perdure.domain.literals import NotificationWord

HEADINGS = ("notification", "channel", "topic", "written", "state", "attempts", "error~")
CHANNELS = ("channel", "kind", "topics~", "registered by", "here")


@command
@click.option("--failed", is_flag=True, help="Only those that were given up.")
@click.option("--channel", metavar="NAME", help="Only those of this channel.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="Maximum number to list.")
def ls(shell: Shell, failed: bool, channel: str | None, limit: int) -> None:
    """List notifications, the newest first.

    A worker, or `perdure serve`, sends them to the channels of its setting `notifications`. One that cannot be sent
    is tried again for a day, and then given up.
    """
    from perdure.cli.store_access import read_list
    from perdure.cli.text.grid import grid
    from perdure.cli.text.plain import safe
    from perdure.clock import span
    from perdure.store.moves import notification

    state: NotificationWord | None = "failed" if failed else None
    found, now = read_list(
        shell, lambda tx: notification.listing(tx, state=state, channel=channel, limit=limit + 1),
        lambda runtime: runtime.notifications(state=state, channel=channel), limit + 1,
    )  # fmt: skip
    if shell.json:
        for one in found[:limit]:
            shell.echo_json(one)
        return
    if not found:
        shell.echo("No notification was given up." if failed else "There are no notifications.")
        return
    rows = [
        [one.id, safe(one.channel), one.topic, f"{span(now - one.created_at)} ago", one.state, str(one.attempts),
         safe(one.error or "")]
        for one in found[:limit]
    ]  # fmt: skip
    shell.echo(*grid(HEADINGS, rows, width=shell.width))
    if len(found) > limit:
        shell.echo("", f"These are the first {limit}. Use --limit to list more.")
    if any(one.state == "failed" for one in found):
        shell.echo("", f"  {shell.suggest('notifications', 'retry')}")


@command
@click.argument("notification", required=False)
@click.option("--channel", metavar="NAME", help="Only those of this channel.")
@by_option
def retry(shell: Shell, notification: str | None, channel: str | None) -> None:
    """Send again what was given up: one notification, those of a channel, or all."""
    from perdure.cli.store_access import run_with_runtime
    from perdure.cli.text.plain import count

    sent = run_with_runtime(shell, lambda runtime: runtime.retry_notifications(notification, channel=channel))
    if shell.json:
        shell.echo_json({"retried": sent})
    else:
        shell.echo(f"{count(sent, 'notification')} will be sent again.")


@command
@click.argument("channel")
@by_option
def test(shell: Shell, channel: str) -> int:
    """Send a notification that only tests a channel.

    It is sent from here if the settings here describe the channel. Otherwise a process that can send it does so.
    """
    from perdure.cli.store_access import run_with_runtime
    from perdure.cli.text.plain import safe

    made = run_with_runtime(shell, lambda runtime: runtime.test_notification(channel), create=True)
    if shell.json:
        shell.echo_json(made)
    elif made.state == "sent":
        shell.echo(f"Notification {made.id} was sent to {safe(channel)}.")
    elif made.error is None:
        shell.echo(f"Notification {made.id} waits for a process whose settings describe {safe(channel)}.")
    else:
        shell.echo(f"Notification {made.id} was not sent to {safe(channel)}: {safe(made.error)}.")
    return 1 if made.error is not None else 0


@command
def channels(shell: Shell) -> None:
    """List the channels that notifications are written for, and whether the settings here describe them."""
    from perdure.cli.store_access import read_list
    from perdure.cli.text.grid import grid
    from perdure.cli.text.plain import safe
    from perdure.runtime.notifications.channels import read_channels
    from perdure.store.moves import notification

    here = read_channels(shell.settings.get("notifications"))
    found, _ = read_list(shell, notification.channels, lambda runtime: runtime.notification_channels())
    if shell.json:
        for one in found:
            shell.echo_json(one.to_dict() | {"here": one.name in here})
        return
    if not found:
        shell.echo("There are no channels. A worker registers those of its setting `notifications` when it starts.")
        return
    rows: list[list[Any]] = [
        [safe(one.name), one.kind, " ".join(one.topics), safe(one.registered_by), "yes" if one.name in here else "no"]
        for one in found
    ]
    shell.echo(*grid(CHANNELS, rows, width=shell.width))


@command
@click.argument("channel")
@by_option
def rm(shell: Shell, channel: str) -> None:
    """Write nothing more for a channel, and give up what waits for it.

    Remove it from the settings of every worker first: a worker registers its channels again.
    """
    from perdure.cli.store_access import run_with_runtime
    from perdure.cli.text.plain import safe
    from perdure.errors import NotFound

    if not run_with_runtime(shell, lambda runtime: runtime.remove_notification_channel(channel, by=shell.by)):
        raise NotFound(f"There is no channel {channel!r:.80}.", hint="`perdure notifications channels` lists them.")
    if shell.json:
        shell.echo_json({"channel": channel, "removed": True})
    else:
        shell.echo(f"The channel {safe(channel)} is removed.")


notifications = ListingCommand(ls, {"ls": ls, "retry": retry, "test": test, "channels": channels, "rm": rm})
notifications.name = "notifications"
