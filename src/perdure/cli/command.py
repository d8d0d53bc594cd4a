"""What every command shares: `--store`, `--json`, the settings, and how it speaks.

A command is a function of a `Shell` and its own options. It returns its exit code, or nothing for 0, and raises what
goes wrong; it never catches an error to print it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import RenderableType

UNBOUNDED = 10_000  # columns, where nobody looks at a terminal: a line is a line, and can be searched for


class Shell:
    """What a command is given: where the store is, what is set, and a mouth."""

    def __init__(self, store: str | None, json: bool) -> None:
        from perdure.config import read_settings

        self.settings = read_settings()
        self.given = store
        self.store = store if store is not None else self.settings.get("store")
        self.json = json

    def show(self, *parts: RenderableType) -> None:
        """Print for people: in colour on a terminal that wants it, plain everywhere else."""
        from rich.console import Console

        width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else UNBOUNDED
        console = Console(width=width, highlight=False, emoji=False)
        with console.capture() as said:
            for part in parts:
                console.print(part, soft_wrap=isinstance(part, str))
        click.echo("\n".join(line.rstrip() for line in said.get().splitlines()), color=True)

    def emit(self, value: Any) -> None:
        """Print one JSON object on one line."""
        import msgspec

        click.echo(msgspec.json.encode(value).decode())


def command(run: Callable[..., int | None]) -> click.Command:
    """Make a function a command, with the options that every command has."""

    def invoke(store: str | None, json: bool, **options: Any) -> int:
        return run(Shell(store, json), **options) or 0

    own: list[click.Parameter] = list(reversed(getattr(run, "__click_params__", [])))
    shared: list[click.Parameter] = [
        click.Option(["--store"], metavar="ADDRESS", help="Where sessions are kept: a path, files:DIR, postgresql://…"),
        click.Option(["--json"], is_flag=True, help="Print one JSON object."),
    ]
    return click.Command(name=run.__name__.rstrip("_"), callback=invoke, params=[*own, *shared], help=run.__doc__)
