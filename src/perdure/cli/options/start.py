"""The options with which sessions are started on the command line."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

import click

from perdure.cli.shell import Shell
from perdure.config import is_service
from perdure.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])
NAMES = ("queue", "priority", "not_before", "key", "retries", "timeout", "pin", "debounce", "on_conflict")


def start_options(function: F) -> F:
    """The options of `rt.start` that decide when and how often a session runs."""
    options = [
        click.option(
            "--queue", metavar="NAME", default="default", show_default=True, help="The queue that it waits in."
        ),
        click.option(
            "--priority", type=click.IntRange(-1000, 1000), default=0, show_default=True,
            help="Workers run sessions with a higher priority first.",
        ),
        click.option("--not-before", metavar="TIME", help='When it may begin: "10m", or 2030-01-31T08:00Z.'),
        click.option("--key", metavar="TEXT", help="What it is about; limits per key count sessions of the same key."),
        click.option("--retries", type=click.IntRange(0, 1000), metavar="N", help="How often it is retried."),
        click.option("--timeout", metavar="DURATION", help="Cancel it if it has not ended after this time."),
        click.option("--pin", is_flag=True, help="Run it only with the version of the code that it began with."),
        click.option("--debounce", metavar="DURATION", help="One session for all requests of a key in this time."),
        click.option(
            "--on-conflict", type=click.Choice(["queue", "keep", "replace"]), default="queue", show_default=True,
            help="If a session of the key has not ended: start another, return it, or cancel it first.",
        ),
    ]  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


def given_start_options(options: dict[str, Any]) -> dict[str, Any]:
    """Take the options of a start out of the options of a command, as `rt.start` takes them."""
    found = {name: options.pop(name) for name in NAMES if name in options}
    if isinstance(when := found.get("not_before"), str):
        found["not_before"] = parse_time(when)
    return found


def owner_of_start(shell: Shell, given: str | None) -> str | None:
    """Whom a session belongs to: the user who starts it, unless another is named. A service knows who asks."""
    return given or (None if is_service(shell.store) else shell.by)


def parse_time(text: str) -> datetime | str:
    """A time with its zone; any other text is a duration."""
    try:
        then = datetime.fromisoformat(text)
    except ValueError:
        if not text[:1].isdigit():
            hint = 'Write a duration ("10m", "24h"), or a time such as 2030-01-31T08:00Z.'
            raise ConfigError(f"{text!r:.60} is not a time.", hint=hint) from None
        return text
    if then.tzinfo is None:
        raise ConfigError(f"The time {text} has no time zone.", hint="Write 2030-01-31T08:00Z, or +02:00 for Z.")
    return then
