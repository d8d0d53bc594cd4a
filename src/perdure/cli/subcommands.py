"""A command that lists, with subcommands: `perdure facts` lists facts, and `perdure facts set` writes one.

The first word decides. It is the name of a subcommand, or it belongs to the listing, or, where a command shows one
record, it is the id of that record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class ListingCommand(click.Command):
    """A listing with subcommands. `record` is the command for any other first word, such as `perdure effects ID`."""

    def __init__(
        self, listing: click.Command, subcommands: dict[str, click.Command], record: click.Command | None = None
    ) -> None:
        super().__init__(name=listing.name, callback=listing.callback, params=listing.params, help=listing.help)
        self.subcommands = subcommands
        self.record = record

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        first = args[0] if args else "-"
        if first in self.subcommands:
            return self.subcommands[first].make_context(f"{info_name} {first}", args[1:], parent, **extra)
        if self.record is not None and not first.startswith("-"):
            return self.record.make_context(info_name, args, parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        rows = [(name, one.get_short_help_str(120)) for name, one in self.subcommands.items()]
        if self.record is not None:
            rows.append((str(self.record.params[0].make_metavar(ctx)), self.record.get_short_help_str(120)))
        with formatter.section("Subcommands"):
            formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        names = [CompletionItem(name) for name in self.subcommands if name.startswith(incomplete)]
        return names + super().shell_complete(ctx, incomplete)
